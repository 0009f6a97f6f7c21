// Tiles of attention-everywhere-matrix.glsl in shared memory: how they are filled, what is shared by the invocations of a query, and
// products of digits.
// Digits of queries or of keys, row by row, the lowest digits first; of values the same of columns.
shared PIECE tile[3u * (64u * STRIDE > HEAD_DIM * KEY_STRIDE ? 64u * STRIDE : HEAD_DIM * KEY_STRIDE)];
// Scores and results in float32, row by row; digits of weights, as those of queries.
shared PIECE rows[QUERIES * SCORE_STRIDE - APART];
// Of queries: the exponent, later that of their numerators, and the power of two by which these shrink.
shared int query_exponents[QUERIES];
shared int shrinks[QUERIES];
shared int key_exponents[KEYS];
shared int value_exponents[KEYS];

int largest_of_lanes(int value) {
    [[unroll]] for (uint apart = 1u; apart < LANES; apart *= 2u) {
        value = max(value, subgroupShuffleXor(value, apart));
    }
    return value;
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
        for (uint i = gl_LocalInvocationIndex; i < 3u * 64u * PIECES; i += 512u) {                                     \
            uint line = i / PIECES;                                                                                    \
            uint at = (row + min(line % 64u, count - 1u)) * heads + head;                                              \
            tile[line * STRIDE + i % PIECES] = NAME[at * HEAD_PIECES + BEFORE + line / 64u * PIECES + i % PIECES];     \
        }                                                                                                              \
    }

STAGE(stage_q, q)
STAGE(stage_k, k)

// Of values, four keys of four columns of a digit are a turn of an invocation.
const uint WORDS = HEAD_DIM / 4u;
const uint TURNS = 3u * WORDS * (KEYS / 4u);
const uint HELD = (TURNS + 511u) / 512u;

void hold_v(uint row, uint count, uint heads, uint head, out uvec4 values[HELD]) {
    [[unroll]] for (uint turn = 0u; turn < HELD; turn++) {
        uint i = gl_LocalInvocationIndex + 512u * turn;
        uint word = i % WORDS, digit = i / WORDS % 3u, key = 4u * (i / (3u * WORDS));
        [[unroll]] for (uint next = 0u; next < 4u; next++) {
            uint at = (row + min(key + next, count - 1u)) * heads + head;
            values[turn][next] = v[at * (4u + 3u * WORDS) + 4u + digit * WORDS + word];
        }
    }
}

// Their columns become rows of the tile.
void stage_v(uvec4 values[HELD]) {
    [[unroll]] for (uint turn = 0u; turn < HELD; turn++) {
        uint i = gl_LocalInvocationIndex + 512u * turn;
        uint word = i % WORDS, digit = i / WORDS % 3u, key = 4u * (i / (3u * WORDS));
        if (TURNS % 512u == 0u || i < TURNS) {
            uvec4 columns = transposed(values[turn]);
            [[unroll]] for (uint c = 0u; c < 4u; c++) {
                uint line = (digit * HEAD_DIM + 4u * word + c) * KEY_STRIDE;
                tile[line + key / PIECE_BYTES][key % PIECE_BYTES / 4u] = columns[c];
            }
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

// An element of a sum of products of digits; in 32 bits two of the five have room together, with up to 128 terms.
float element(SUM sums[5], uint e, int exponent) {
    int low = sums[0][e] + (sums[1][e] << 8), middle = sums[2][e] + (sums[3][e] << 8);
    if (HEAD_DIM > 128u) {
        return assembled_digits(sums[0][e], sums[1][e], sums[2][e], sums[3][e], sums[4][e], exponent);
    }
    return assembled_words(low, middle, sums[4][e], exponent);
}
