#version 460
// Computes: as attention-everywhere.glsl, on matrix cores for bytes, whose nine products of digits are summed by weight, five
// sums in 32 bits. The heads of q [T, H, 16 + 3 HEAD_DIM], k and v [K, H', 16 + 3 HEAD_DIM] bytes by head-integers.glsl.
// Grid: x = ceil(T / 64) tiles of packed tokens, which may include several texts, continued along z; y = heads.
// Reduction order: keys in blocks of 64 from the text's first, each an exact sum; blocks are rescaled by powers of two.
// Assumes: offsets [B + 1] increase to the rows of q and k; HEAD_DIM is a multiple of 32; subgroups as the variant's.
//# numerics = ["everywhere"]
//# # Where there are none, `attention-everywhere` runs, with the same result.
//# made_of = { constants = "Blocks" }
//# variants = [
//#     { needs = ["coopmat_s8_s32_16x16x32", "int8", "int64", "subgroup_shuffle"], when = ["subgroup_size >= 32", "subgroup_size <= 32"] },
//#     { name = "eights", needs = ["coopmat_s8_s32_8x8x8", "int8", "int64", "subgroup_shuffle"], when = ["subgroup_size >= 8", "subgroup_size <= 8"], defines = { EIGHTS = "1" } },
//# ]
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "everywhere/digit-matrices.glsl"
#define MASKS
#include "counts.glsl"
#include "numbers.glsl"
#include "everywhere/exact-integers.glsl"
#include "everywhere/digit-products.glsl"

layout(local_size_x = 512) in;
layout(constant_id = 0) const uint HEAD_DIM = 64;
#include "attention.masks.glsl"

layout(std430, binding = 1) readonly buffer Q { PIECE q[]; };
layout(std430, binding = 2) readonly buffer K { PIECE k[]; };
layout(std430, binding = 3) readonly buffer V { uint v[]; };
layout(std430, binding = 7) writeonly buffer Y { float y[]; };
#include "attention/attention-push.glsl"
#include "attention/attention-sight.glsl"

const uint QUERIES = 64u;
const uint KEYS = 64u;
// Invocations that share a query: quads of keys lane + 4 i of a block are theirs.
const uint LANES = 8u;
const uint OWN = KEYS / LANES;

// Pieces of a digit: of a row of HEAD_DIM columns, of one of 64 keys.
const uint PIECES = HEAD_DIM / PIECE_BYTES;
const uint STRIDE = PIECES + APART;
// Pieces of a head's exponent, and of all of a head.
const uint BEFORE = 16u / PIECE_BYTES;
const uint HEAD_PIECES = BEFORE + 3u * PIECES;
const uint KEY_PIECES = KEYS / PIECE_BYTES;
const uint KEY_STRIDE = KEY_PIECES + APART;
// Pieces of a row of 64 scores, or results, which begin at multiples of 16 bytes.
const uint SCORE_STRIDE = (4u * 64u + 16u) / PIECE_BYTES;

// Subgroups of which neighbours have different rows of matrices; matrices of a row that are a subgroup's, of results at most.
const uint ROW_MATRICES = QUERIES / SIDE;
const uint ACROSS = 512u / LANES_OF_MATRIX / ROW_MATRICES;
const uint SCORES = KEYS / SIDE / ACROSS;
const uint RESULTS = (HEAD_DIM / SIDE + ACROSS - 1u) / ACROSS;

#include "attention-everywhere-matrix.tiles.glsl"

void main() {
    uint first = group_x() * QUERIES;
    uint head = gl_WorkGroupID.y;
    uint last = min(first + QUERIES, counts.tokens);
    if (first >= last) {
        return;
    }
    uint heads = gl_NumWorkGroups.y;
    uint kv_head = head / push.group;
    uint kv_heads = heads / push.group;
    uint me = gl_LocalInvocationIndex;
    uint row = me / LANES;
    uint own_row = gl_SubgroupID % ROW_MATRICES * SIDE;
    uint own_column = gl_SubgroupID / ROW_MATRICES * SIDE;

    stage_q(first, last - first, heads, head);
    met_again = 0u;
    int query_exponent = int(q[(min(first + row, last - 1u) * heads + head) * HEAD_PIECES].x);
    barrier();
    LEFT queries[HEAD_DIM / TERMS][3];
    UNROLLED for (uint step = 0u; step < HEAD_DIM / TERMS; step++) {
        [[unroll]] for (uint p = 0u; p < 3u; p++) {
            uint place = (p * QUERIES + own_row) * STRIDE + step * (TERMS / PIECE_BYTES);
            coopMatLoad(queries[step][p], tile, place, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        }
    }
    FLOATS result[RESULTS];
    [[unroll]] for (uint i = 0u; i < RESULTS; i++) {
        result[i] = FLOATS(0.0);
    }
    Kept kept = nothing_kept(0.0);

    LAST_TEXT(first_text, counts.texts, q_offsets[middle] <= first)
    Met own = met(first_text, last, first + row);
    bool again = false;
    for (uint text = first_text, end; text < counts.texts && q_offsets[text] < last; text = again ? text : end) {
        Together texts = met_together(text, first, last);
        end = texts.end;
        if (q_offsets[end] == q_offsets[text]) {
            continue;
        }
        bool here = meets(own, texts, again, kept);
        for (uint at = seen_from(0u, texts.some); at < uint(end_of(texts.some)); at = seen_from(at + KEYS, texts.some)) {
            uint block = texts.begin + at;
            uint keys = min(KEYS, texts.keys - at);
            // What of keys and values the block needs is read before the tiles of the last block are done with.
            uvec4 values[HELD];
            hold_v(block, keys, kv_heads, kv_head, values);
            uint key = (block + min(me, keys - 1u)) * kv_heads + kv_head;
            int key_exponent = int(k[key * HEAD_PIECES].x);
            int value_exponent = int(v[key * HEAD_PIECES * (PIECE_BYTES / 4u)]);
            barrier();
            stage_k(block, keys, kv_heads, kv_head);
            if (me < KEYS) {
                key_exponents[me] = key_exponent;
                value_exponents[me] = value_exponent;
            }
            if (me % LANES == 0u) {
                query_exponents[row] = query_exponent;
            }
            barrier();
            SUM of_row;
            coopMatLoad(of_row, query_exponents, own_row, 0u, gl_CooperativeMatrixLayoutColumnMajor);
            UNROLLED for (uint i = 0u; i < SCORES; i++) {
                uint column = own_column + i * ACROSS * SIDE;
                SUM sums[5];
                clear(sums);
                UNROLLED for (uint step = 0u; step < HEAD_DIM / TERMS; step++) {
                    RIGHT own_keys[3];
                    [[unroll]] for (uint p = 0u; p < 3u; p++) {
                        uint place = (p * KEYS + column) * STRIDE + step * (TERMS / PIECE_BYTES);
                        coopMatLoad(own_keys[p], tile, place, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
                    }
                    add_products(queries[step], own_keys, sums);
                }
                SUM of_column;
                FLOATS found;
                coopMatLoad(of_column, key_exponents, column, 0u, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint e = 0u; e < found.length(); e++) {
                    bool finite = of_row[e] != NOT_FINITE && of_column[e] != NOT_FINITE;
                    float score = element(sums, e, of_row[e] + of_column[e] - 44);
                    found[e] = finite ? score : uintBitsToFloat(0x7fc00000u);
                }
                uint place = own_row * SCORE_STRIDE + column * 4u / PIECE_BYTES;
                coopMatStore(found, rows, place, SCORE_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            }
            barrier();

            stage_v(values);
            float scores[OWN];
            UNROLLED for (uint j = 0u; j < OWN; j++) {
                uint bytes = 4u * own_key(j);
                scores[j] = uintBitsToFloat(rows[row * SCORE_STRIDE + bytes / PIECE_BYTES][bytes % PIECE_BYTES / 4u]);
            }
            int weights[OWN];
            Added added = weigh(scores, own, here, block, kept, weights);
            if (me % LANES == 0u) {
                query_exponents[row] = added.exponent;
                shrinks[row] = added.shrink;
            }
            barrier();
            // Digits of weights in place of the scores.
            UNROLLED for (uint four = 0u; four < OWN / 4u; four++) {
                uint j = 4u * four;
                uvec3 digits = digits_of(ivec4(weights[j], weights[j + 1u], weights[j + 2u], weights[j + 3u]));
                uint bytes = own_key(j);
                [[unroll]] for (uint p = 0u; p < 3u; p++) {
                    uint line = (p * QUERIES + row) * KEY_STRIDE;
                    rows[line + bytes / PIECE_BYTES][bytes % PIECE_BYTES / 4u] = digits[p];
                }
            }
            barrier();
            SUM shrink;
            coopMatLoad(of_row, query_exponents, own_row, 0u, gl_CooperativeMatrixLayoutColumnMajor);
            coopMatLoad(shrink, shrinks, own_row, 0u, gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint i = 0u; i < RESULTS; i++) {
                uint column = own_column + i * ACROSS * SIDE;
                if (column >= HEAD_DIM) {
                    break;
                }
                SUM sums[5];
                clear(sums);
                UNROLLED for (uint step = 0u; step < KEYS / TERMS; step++) {
                    LEFT own_weights[3];
                    RIGHT own_values[3];
                    [[unroll]] for (uint p = 0u; p < 3u; p++) {
                        uint of_weights = (p * QUERIES + own_row) * KEY_STRIDE + step * (TERMS / PIECE_BYTES);
                        uint of_values = (p * HEAD_DIM + column) * KEY_STRIDE + step * (TERMS / PIECE_BYTES);
                        coopMatLoad(own_weights[p], rows, of_weights, KEY_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                        coopMatLoad(own_values[p], tile, of_values, KEY_STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
                    }
                    add_products(own_weights, own_values, sums);
                }
                [[unroll]] for (uint e = 0u; e < result[i].length(); e++) {
                    result[i][e] = weighed(result[i][e], element(sums, e, of_row[e]), shrink[e]);
                }
            }
        }
        again = meets_again(text, here, again, kept);
    }

    // Results pass through shared memory, 64 columns at a time.
    float inverse = divided(1.0, kept.total);
    for (uint start = 0u; start < HEAD_DIM; start += 64u) {
        barrier();
        [[unroll]] for (uint i = 0u; i < RESULTS; i++) {
            uint column = own_column + i * ACROSS * SIDE;
            if (column < HEAD_DIM && column / 64u == start / 64u) {
                uint place = own_row * SCORE_STRIDE + column % 64u * 4u / PIECE_BYTES;
                coopMatStore(result[i], rows, place, SCORE_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            }
        }
        barrier();
        UNROLLED for (uint j = 0u; j < OWN; j++) {
            uint bytes = 4u * own_key(j);
            uint column = start + own_key(j);
            if (first + row < last && column < HEAD_DIM) {
                float own = uintBitsToFloat(rows[row * SCORE_STRIDE + bytes / PIECE_BYTES][bytes % PIECE_BYTES / 4u]);
                y[(first + row) * push.y_stride + head * HEAD_DIM + column] = quotient(own, inverse, kept);
            }
        }
    }
}
