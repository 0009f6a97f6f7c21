#version 460
// Computes: attention as attention.glsl with masks, biases and a soft cap, with the same bits on every device: products of
// queries and keys, and of weights and values, are exact sums of integers.
// Grid: x = ceil(T / 32) tiles of packed tokens, which may include several texts, continued along z; y = heads.
// Reduction order: keys in blocks of 64 from the text's first, each an exact sum; blocks are rescaled by powers of two.
// Assumes: offsets [B + 1] increase to the rows of q and k; HEAD_DIM is at most 256. Loops are unrolled in part: lavapipe ends
// all loops of an invocation after 65,535 iterations together.
//# numerics = ["everywhere"]
//# made_of = { constants = "Blocks" }
//#
//# [builds]
//# attention-everywhere-distances = { define = "DISTANCES" }  # with terms by distance in place of biases
#extension GL_EXT_control_flow_attributes : require
#ifndef DISTANCES
#define MASKS
#endif
#include "counts.glsl"
#include "numbers.glsl"
#include "everywhere/exact-integers.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint HEAD_DIM = 64;
#include "attention.masks.glsl"

layout(std430, binding = 1) readonly buffer Q { float q[]; };
layout(std430, binding = 2) readonly buffer K { float k[]; };
layout(std430, binding = 3) readonly buffer V { float v[]; };
layout(std430, binding = 7) writeonly buffer Y { float y[]; };
#include "attention/attention-push.glsl"
#include "attention/attention-sight.glsl"

const uint QUERIES = 32u;
const uint KEYS = 64u;
// Invocations that share a query: of a block lane + 8 j are its keys, of a chunk of columns its columns.
const uint LANES = 8u;
// A head is processed in chunks of 32 columns; odd strides keep neighbouring rows in different banks.
const uint CHUNKS = (HEAD_DIM + 31) / 32;
const uint STRIDE = 33u;
const uint WEIGHT_STRIDE = 65u;
shared int query_tile[QUERIES * STRIDE];
// Of keys, then of values.
shared int key_tile[KEYS * STRIDE];
shared int weights[QUERIES * WEIGHT_STRIDE];
// What decides the exponents of rows, and the largest bits of their magnitudes: queries, keys, values.
shared int most[QUERIES + 2u * KEYS];
shared uint largest[QUERIES + 2u * KEYS];
const uint OF_KEYS = QUERIES;
const uint OF_VALUES = QUERIES + KEYS;
#include "attention-everywhere.rows.glsl"
const uint OWN = KEYS / LANES;

uint own_key(uint j) {
    return gl_LocalInvocationIndex % LANES + LANES * j;
}

#define UNROLLED
#include "attention-everywhere.weights.glsl"
#ifdef DISTANCES
#include "attention-everywhere.distances.glsl"
#endif

void main() {
    uint first = group_x() * QUERIES;
    uint head = gl_WorkGroupID.y;
    uint last = min(first + QUERIES, counts.tokens);
    if (first >= last) {
        return;
    }
    uint q_column = push.q_column + head * HEAD_DIM;
    uint k_column = push.k_column + head / push.group * HEAD_DIM;
    uint v_column = push.v_column + head / push.group * HEAD_DIM;
    uint row = gl_LocalInvocationIndex / LANES;
    uint lane = gl_LocalInvocationIndex % LANES;

    begin_measures(0u, QUERIES);
    met_again = 0u;
    barrier();
    measure_q(first, last - first, push.q_stride, q_column, 0u);
    barrier();
    int query_exponent = exponent_at(row);

    // Columns 32 chunk + lane + 8 c of the result are result[chunk][c]; powers of two are relative to that of the query.
    vec4 result[CHUNKS];
    [[unroll]] for (uint chunk = 0u; chunk < CHUNKS; chunk++) {
        result[chunk] = vec4(0.0);
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
            barrier();
            begin_measures(OF_KEYS, 2u * KEYS);
            barrier();
            measure_k(block, keys, push.k_stride, k_column, OF_KEYS);
            measure_v(block, keys, push.v_stride, v_column, OF_VALUES);

            ivec3 parts[8];
            [[unroll]] for (uint j = 0u; j < 8u; j++) {
                parts[j] = ivec3(0);
            }
            for (uint chunk = 0u; chunk < CHUNKS; chunk++) {
                barrier();
                stage_q(first, last - first, push.q_stride, q_column, 0u, chunk);
                stage_k(block, keys, push.k_stride, k_column, OF_KEYS, chunk);
                barrier();
                for (uint eight = 0u; eight < 32u; eight += 8u) {
                    [[unroll]] for (uint step = 0u; step < 8u; step++) {
                        uint d = eight + step;
                        int query = query_tile[row * STRIDE + d];
                        [[unroll]] for (uint j = 0u; j < 8u; j++) {
                            add_product(query, key_tile[(lane + LANES * j) * STRIDE + d], parts[j]);
                        }
                    }
                }
            }

            float scores[OWN];
            [[unroll]] for (uint j = 0u; j < 8u; j++) {
                scores[j] = product_of(parts[j], query_exponent, exponent_at(OF_KEYS + lane + LANES * j));
            }
#ifdef DISTANCES
            add_distances(scores, int(at) - place_of(first - q_offsets[text], q_offsets[text + 1u] - q_offsets[text], texts.keys), uvec4(first, last - first, block, keys));
#endif

            int own_weights[OWN];
            Added added = weigh(scores, own, here, block, kept, own_weights);
            [[unroll]] for (uint j = 0u; j < OWN; j++) {
                weights[row * WEIGHT_STRIDE + own_key(j)] = halves(own_weights[j]);
            }
            for (uint chunk = 0u; chunk < CHUNKS; chunk++) {
                barrier();
                stage_v(block, keys, push.v_stride, v_column, OF_VALUES, chunk);
                barrier();
                ivec3 products[4];
                [[unroll]] for (uint c = 0u; c < 4u; c++) {
                    products[c] = ivec3(0);
                }
                for (uint eight = 0u; eight < KEYS; eight += 8u) {
                    [[unroll]] for (uint step = 0u; step < 8u; step++) {
                        uint key = eight + step;
                        int weight = weights[row * WEIGHT_STRIDE + key];
                        [[unroll]] for (uint c = 0u; c < 4u; c++) {
                            add_product(weight, key_tile[key * STRIDE + lane + LANES * c], products[c]);
                        }
                    }
                }
                [[unroll]] for (uint c = 0u; c < 4u; c++) {
                    uvec2 product = uvec2(0u);
                    add_sums(product, products[c]);
                    result[chunk][c] = weighed(result[chunk][c], assembled(product, added.exponent), added.shrink);
                }
            }
        }
        again = meets_again(text, here, again, kept);
    }

    float inverse = divided(1.0, kept.total);
    if (first + row < last) {
        for (uint chunk = 0u; chunk < CHUNKS; chunk++) {
            for (uint c = 0u; c < 4u; c++) {
                uint column = 32u * chunk + lane + LANES * c;
                if (column < HEAD_DIM) {
                    y[(first + row) * push.y_stride + head * HEAD_DIM + column] = quotient(result[chunk][c], inverse, kept);
                }
            }
        }
    }
}
