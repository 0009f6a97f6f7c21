#version 460
// Computes: y[i, h] = sum_j softmax_j(cap(scale q[i, h] . k[j, g]) + bias[h, j - place(i)]) v[j, g], j over the keys of
// i's text that i sees, g = h / group; cap(s) = SOFT_CAP tanh(s / SOFT_CAP), or s.
// With DISTANCES what is scaled is q[i, h] . k[j, g] and the terms of attention.distances.glsl.
// Grid: x = ceil(T / BLOCK_Q) tiles of packed tokens, which may include several texts, continued along z; y = heads.
// Reduction order: keys in blocks of BLOCK_KV from the text's first; d and, inside a block, j in order; sums of weights
// by quarters. A block without visible keys for a query changes none of its bits.
// Assumes: offsets [B + 1] increase to the rows of q and k; with VECTOR, HEAD_DIM and all strides and columns are
// multiples of 4; BLOCK_Q and BLOCK_KV are powers of two from 16 on, BLOCK_KV at most 16 BLOCK_Q; INVOCATIONS = 4
// BLOCK_Q.
//# stored = ["float32", "float16", "bfloat16"]
//# made_of = { constants = "Blocks" }
//#
//# [builds]
//# attention-masked = { define = "MASKS" }  # the same with masks, biases and a soft cap of the scores
//# attention-distances = { define = "DISTANCES" }  # the same with terms by distance in place of biases
#extension GL_EXT_control_flow_attributes : require
#include "numbers.glsl"
#include "stored.glsl"

layout(local_size_x = 256, local_size_x_id = 7) in;
layout(constant_id = 0) const uint HEAD_DIM = 64;
ALIGNED_ROWS(VECTOR, 1);
layout(constant_id = 5) const uint BLOCK_Q = 64;
layout(constant_id = 6) const uint BLOCK_KV = 64;
layout(constant_id = 7) const uint INVOCATIONS = 256;
#include "attention.masks.glsl"
#include "attention.interface.glsl"
#include "attention/attention-dropout.glsl"
#include "attention/attention-sight.glsl"
#include "attention.blocks.glsl"
#ifdef DISTANCES
#include "attention.distances.glsl"
#endif

void main() {
    uint invocation = gl_LocalInvocationIndex;
    uint first = group_x() * BLOCK_Q;
    uint head = gl_WorkGroupID.y;
    uint last = min(first + BLOCK_Q, counts.tokens);
    if (first >= last) {
        return;
    }
    uint q_column = push.q_column + head * HEAD_DIM;
    uint k_column = push.k_column + head / push.group * HEAD_DIM;
    uint v_column = push.v_column + head / push.group * HEAD_DIM;

    // Weights: row invocation / 4, quads of keys quarter + 4 c. 32 neighbours have the same eight rows everywhere, in scores
    // and results, too, and are idle while a text has none of them.
    uint soft_row = invocation / 4u;
    uint quarter = invocation % 4u;
    begin_results();

    float largest = uintBitsToFloat(0xff800000u);
    float total = 0.0;

    LAST_TEXT(first_text, counts.texts, q_offsets[middle] <= first)
    for (uint text = first_text; text < counts.texts && q_offsets[text] < last; text++) {
        uint begin = q_offsets[text];
        uint end = min(q_offsets[text + 1u], last);
        uint key_begin = kv_offsets[text / push.shared_by];
        uint key_count = kv_offsets[text / push.shared_by + 1u] - key_begin;
        if (begin >= end) {
            continue;
        }
        // Positions of the tile's first and last query of this text, and of this invocation's.
        uint queries = q_offsets[text + 1u] - begin;
        int first_place = place_of(max(first, begin) - begin, queries, key_count);
        int last_place = first_place + int(end - 1u - max(first, begin));
        int place = place_of(first + soft_row - begin, queries, key_count);
        bool own = first + soft_row >= begin && first + soft_row < end;
        bool own_scores = first + ty < end && first + ty + ROWS > begin;
        bool own_0 = first + tr >= begin && first + tr < end;
        bool own_1 = first + tr + 1u >= begin && first + tr + 1u < end;
        Sight some = sight_of_any(first_place, last_place, int(key_count));
        Sight each = sight_of_all(first_place, last_place, int(key_count));
        Sight mine = sight_of(place, int(key_count));
        uint table = BIAS ? (text * gl_NumWorkGroups.y + head) % push.bias_rows * (2u * push.reach + 1u) : 0u;
        uint limit = uint(end_of(some));
        for (uint at = 0u; at < limit; at += BLOCK_KV) {
            if (WINDOW && int(at) >= some.leading) {
                // Blocks that no query of the tile sees are skipped.
                at = max(at, uint(some.begin) / BLOCK_KV * BLOCK_KV);
            }
            uint block = key_begin + at;
            uint keys = min(BLOCK_KV, key_count - at);
            // Whether the block is partly hidden from some query of the tile.
            bool edge = HIDES && !sees_each(each, int(at), int(keys));

            vec4 score[ROWS];
            [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                score[i] = vec4(0.0);
            }
            for (uint chunk = 0u; chunk < CHUNKS; chunk++) {
                barrier();
                stage_queries(first, last, q_column, chunk);
                stage_keys(block, keys, k_column, chunk);
                barrier();
                if (own_scores && 4u * tx < keys) {
                    ADD_PRODUCTS(score)
#ifdef DISTANCES
                    int row_place = place_of(first + ty - begin, queries, key_count);
                    add_distances(score, int(at + 4u * tx) - row_place, chunk);
#endif
                }
            }
            barrier();
            [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                vec4 scaled = score[i] * push.scale;
                if (SOFT_CAP > 0.0) {
                    [[unroll]] for (uint j = 0u; j < 4u; j++) {
                        scaled[j] = SOFT_CAP * hyperbolic_tangent(scaled[j] / SOFT_CAP);
                    }
                }
                stage[(ty + i) * WEIGHT_STRIDE + tx] = scaled;
            }
            barrier();

            // Softmax over the block: a row without visible keys in it gets no weights and keeps its results.
            bool some_seen = own && (!HIDES || sees_some(mine, int(at), int(keys)));
            vec4 weight[ROWS];
            float most = largest;
            [[unroll]] for (uint c = 0u; c < ROWS; c++) {
                weight[c] = stage[soft_row * WEIGHT_STRIDE + quarter + 4u * c];
                [[unroll]] for (uint j = 0u; j < 4u; j++) {
                    uint key = 4u * (quarter + 4u * c) + j;
                    bool there = some_seen && key < keys && (!edge || sees(mine, int(at + key)));
#ifndef DISTANCES
                    if (BIAS) {
                        int reach = int(push.reach);
                        weight[c][j] += bias[table + uint(clamp(int(at + key) - place, -reach, reach) + reach)];
                    }
#endif
                    // A branch: a selection takes SwiftShader a minute to compile.
                    if (there) {
                        most = max(most, weight[c][j]);
                    }
                }
            }
            partial[invocation] = most;
            barrier();
            uint row_slot = soft_row * 4u;
            most = max(max(partial[row_slot], partial[row_slot + 1u]), max(partial[row_slot + 2u], partial[row_slot + 3u]));
            float sum = 0.0;
            // The mark, below any weight, of keys hidden from this query but not from another: 0 times a hidden NaN is
            // not 0.
            float hidden = edge ? -1.0 : 0.0;
            if (own) {
                [[unroll]] for (uint c = 0u; c < ROWS; c++) {
                    [[unroll]] for (uint j = 0u; j < 4u; j++) {
                        uint key = 4u * (quarter + 4u * c) + j;
                        bool there = some_seen && key < keys && (!edge || sees(mine, int(at + key)));
                        weight[c][j] = there ? exponential(weight[c][j] - most) : 0.0;
                        sum += weight[c][j];
                        if (HIDES) {
                            weight[c][j] = there ? weight[c][j] : hidden;
                        }
                    }
                    if (DROPOUT > 0.0) {
                        weight[c] = dropped_weights(weight[c], first + soft_row, head, at / 4u + quarter + 4u * c);
                    }
                    stage[soft_row * WEIGHT_STRIDE + quarter + 4u * c] = weight[c];
                }
            }
            float shrink = some_seen ? exponential(largest - most) : 1.0;
            largest = some_seen ? most : largest;
            barrier();
            partial[invocation] = sum;
            if (quarter == 0u) {
                factor[soft_row] = shrink;
            }

            [[unroll]] for (uint chunk = 0u; chunk < CHUNKS; chunk++) {
                if (chunk > 0u) {
                    barrier();
                }
                stage_values(block, keys, v_column, chunk);
                barrier();
                if (own_0 || own_1) {
                    add_values(chunk, keys, own_0, own_1, factor[tr], factor[tr + 1u], HIDES);
                }
            }
            float block_sum = (partial[row_slot] + partial[row_slot + 1u]) + (partial[row_slot + 2u] + partial[row_slot + 3u]);
            total = fma(total, shrink, block_sum);
        }
    }

    barrier();
    if (quarter == 0u) {
        factor[soft_row] = total;
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < 2u; i++) {
        uint row = tr + i;
        if (first + row < last) {
            [[unroll]] for (uint chunk = 0u; chunk < CHUNKS; chunk++) {
                // The weights of a text without keys have a sum of zero.
                vec4 quad = factor[row] == 0.0 ? vec4(0.0) : result[2u * chunk + i] / factor[row];
                uint column = 32u * chunk + 4u * tc;
                uint at = (first + row) * push.y_stride + head * HEAD_DIM + column;
                if (column < HEAD_DIM) {
                    STORE_QUAD(y, VECTOR, column, HEAD_DIM)
                }
            }
        }
    }
}
