// Tiles of attention-everywhere-matrix.glsl in shared memory: how they are filled, what is shared by the invocations of a query, and
// products of digits.
// Digits of queries or of keys, row by row, the lowest digits first; of values the same of columns.
shared PIECE tile[3u * (64u * STRIDE > HEAD_DIM * KEY_STRIDE ? 64u * STRIDE : HEAD_DIM * KEY_STRIDE)];
// Scores and results in float32, row by row; digits of weights, as those of queries.
shared PIECE rows[QUERIES * SCORE_STRIDE];
// Of queries: the exponent, later that of their numerators, and the power of two by which these shrink.
shared int query_exponents[QUERIES];
shared int shrinks[QUERIES];
shared int key_exponents[KEYS];
shared int value_exponents[KEYS];

int largest_of_lanes(int value) {
    value = max(value, subgroupShuffleXor(value, 1u));
    return max(value, subgroupShuffleXor(value, 2u));
}

uint own_key(uint j) {
    return 4u * (gl_LocalInvocationIndex % LANES + LANES * (j / 4u)) + j % 4u;
}

int value_exponent(uint key) {
    return value_exponents[key];
}

uvec2 sum_of_lanes(uvec2 value) {
    [[unroll]] for (uint apart = 1u; apart < LANES; apart *= 2u) {
        uvec2 other = uvec2(subgroupShuffleXor(value.x, apart), subgroupShuffleXor(value.y, apart));
        add(value, other);
    }
    return value;
}

#include "attention-everywhere.weights.glsl"

// Declares STAGES: the digits of a head of 64 rows of NAME from `row` on, the last of `count` repeated.
#define STAGE(STAGES, NAME)                                                                                            \
    void STAGES(uint row, uint count, uint heads, uint head) {                                                         \
        for (uint i = gl_LocalInvocationIndex; i < 3u * 64u * PIECES; i += 256u) {                                     \
            uint line = i / PIECES;                                                                                    \
            uint at = (row + min(line % 64u, count - 1u)) * heads + head;                                              \
            tile[line * STRIDE + i % PIECES] = NAME[at * HEAD_PIECES + BEFORE + line / 64u * PIECES + i % PIECES];     \
        }                                                                                                              \
    }

STAGE(stage_q, q)
STAGE(stage_k, k)

// The same of values, whose columns become rows: an invocation has four columns of as many keys as a piece has bytes.
void stage_v(uint row, uint count, uint heads, uint head) {
    const uint words = HEAD_DIM / 4u;
    for (uint i = gl_LocalInvocationIndex; i < 3u * words * KEY_PIECES; i += 256u) {
        uint word = i % words, digit = i / words % 3u, piece = i / (3u * words);
        PIECE columns[4];
        [[unroll]] for (uint four = 0u; four < PIECE_BYTES / 4u; four++) {
            uint numbers[4];
            [[unroll]] for (uint key = 0u; key < 4u; key++) {
                uint at = (row + min(piece * PIECE_BYTES + 4u * four + key, count - 1u)) * heads + head;
                numbers[key] = v[at * (4u + 3u * words) + 4u + digit * words + word];
            }
            [[unroll]] for (uint c = 0u; c < 4u; c++) {
                uint column = 0u;
                [[unroll]] for (uint key = 0u; key < 4u; key++) {
                    column |= bitfieldExtract(numbers[key], int(8u * c), 8) << (8u * key);
                }
                columns[c][four] = column;
            }
        }
        [[unroll]] for (uint c = 0u; c < 4u; c++) {
            tile[(digit * HEAD_DIM + 4u * word + c) * KEY_STRIDE + piece] = columns[c];
        }
    }
}

void clear(out SUM sums[5]) {
    [[unroll]] for (uint s = 0u; s < 5u; s++) {
        sums[s] = SUM(0);
    }
}

// Adds the nine products of digits to their sums.
void add_products(LEFT a[3], RIGHT b[3], inout SUM sums[5]) {
    [[unroll]] for (uint p = 0u; p < 3u; p++) {
        [[unroll]] for (uint o = 0u; o < 3u; o++) {
            sums[p + o] = coopMatMulAdd(a[p], b[o], sums[p + o]);
        }
    }
}

float element(SUM sums[5], uint e, int exponent) {
    return assembled_digits(sums[0][e], sums[1][e], sums[2][e], sums[3][e], sums[4][e], exponent);
}
