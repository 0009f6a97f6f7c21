#version 460
// Computes: as attention.glsl in 16 bits; an invocation has one query, whose scores, weights and results stay in registers.
// Weights are float32. Shared memory has the keys and the values of a block as they are stored: 4 BLOCK_KV HEAD_DIM bytes.
// Grid: x = floor(T / BLOCK_Q) + B tiles of BLOCK_Q queries of one text, continued along z; y = heads. Text i owns the tiles
// from floor(q_offsets[i] / BLOCK_Q) + i on; the last tiles of some texts are empty.
// Reduction order: keys in steps of STEP from the text's first, whatever the blocks; columns and the keys of a step in order.
// A step without visible keys for a query changes none of its bits.
// Assumes: offsets [B + 1] increase to the rows of q and k; HEAD_DIM, strides and columns, counted in eights here, are
// integers; BLOCK_KV a multiple of STEP.
//# # For blocks that a call asks for in float16, where matrix cores do not have them; results of a wider head would not fit
//# # registers. Counters called `unrolled_...` tell CUDA, too, which loops to unroll, so that arrays are in registers.
//# stored = ["float16"]
//# made_of = { constants = "Blocks" }
//# variants = [{ when = ["k % 16", "k >= 16", "k <= 256"] }]
#extension GL_EXT_control_flow_attributes : require
#define MASKS
#include "numbers.glsl"
#include "numbers/terms.glsl"
#include "stored.glsl"
#include "counts.glsl"

layout(local_size_x = 64, local_size_x_id = 5) in;
layout(constant_id = 0) const uint HEAD_DIM = 64;
layout(constant_id = 5) const uint BLOCK_Q = 64;
layout(constant_id = 6) const uint BLOCK_KV = 64;
#include "attention.masks.glsl"
#include "attention/attention-push.glsl"
#include "attention/attention-sight.glsl"

// Eight elements per quad.
layout(std430, binding = 1) readonly buffer Q { uvec4 q[]; };
layout(std430, binding = 2) readonly buffer K { uvec4 k[]; };
layout(std430, binding = 3) readonly buffer V { uvec4 v[]; };
layout(std430, binding = 7) writeonly buffer Y { uvec4 y[]; };

// Quads of a head, and of a block's keys or values; keys whose scores an invocation has at once.
const uint QUADS = HEAD_DIM / 8u;
const uint BLOCK = BLOCK_KV * QUADS;
const uint STEP = 8u;
// All invocations read the same quad at once.
shared uvec4 keys[BLOCK];
shared uvec4 values[BLOCK];

void main() {
    uint invocation = gl_LocalInvocationIndex;
    LAST_TEXT(text, counts.texts, q_offsets[middle] / BLOCK_Q + middle <= group_x())
    uint text_first = q_offsets[text];
    uint first = text_first + (group_x() - (text_first / BLOCK_Q + text)) * BLOCK_Q;
    uint last = q_offsets[text + 1u];
    if (first >= last) {
        return;
    }
    uint key_first = kv_offsets[text / push.shared_by];
    uint key_count = kv_offsets[text / push.shared_by + 1u] - key_first;
    uint head = gl_WorkGroupID.y;
    uint k_column = push.k_column + head / push.group * QUADS;
    uint v_column = push.v_column + head / push.group * QUADS;
    // Rows past the text's end repeat its last.
    uint row = min(first + invocation, last - 1u);
    int first_place = place_of(first - text_first, last - text_first, key_count);
    int place = first_place + int(row - first);
    Sight some = sight_of_any(first_place, first_place + int(min(BLOCK_Q, last - first)) - 1, int(key_count));
    Sight mine = sight_of(place, int(key_count));
    int reach = int(push.reach);
    uint table = BIAS ? (text * gl_NumWorkGroups.y + head) % push.bias_rows * (2u * push.reach + 1u) : 0u;

    uvec4 query[QUADS];
    vec4 result[2u * QUADS];
    [[unroll]] for (uint unrolled_c = 0u; unrolled_c < QUADS; unrolled_c++) {
        query[unrolled_c] = q[row * push.q_stride + push.q_column + head * QUADS + unrolled_c];
        result[2u * unrolled_c] = vec4(0.0);
        result[2u * unrolled_c + 1u] = vec4(0.0);
    }
    float largest = uintBitsToFloat(0xff800000u);
    float total = 0.0;
    uint limit = uint(end_of(some));
    for (uint at = 0u; at < limit; at += BLOCK_KV) {
        if (WINDOW && int(at) >= some.leading) {
            // Blocks that no query of the tile sees are skipped.
            at = max(at, uint(some.begin) / BLOCK_KV * BLOCK_KV);
        }
        barrier();
        // Zeros past the last key, so that whatever is stored there has no effect.
        for (uint slot = invocation; slot < BLOCK; slot += BLOCK_Q) {
            bool there = at + slot / QUADS < key_count;
            uint from = key_first + (there ? at + slot / QUADS : at);
            keys[slot] = mix(uvec4(0u), k[from * push.k_stride + k_column + slot % QUADS], bvec4(there));
            values[slot] = mix(uvec4(0u), v[from * push.v_stride + v_column + slot % QUADS], bvec4(there));
        }
        barrier();
        uint count = min(BLOCK_KV, key_count - at);
        for (uint begin = 0u; begin < count; begin += STEP) {
            if (HIDES && !sees_some(mine, int(at + begin), int(STEP))) {
                continue;
            }
            float score[STEP];
            [[unroll]] for (uint unrolled_j = 0u; unrolled_j < STEP; unrolled_j++) {
                score[unrolled_j] = 0.0;
            }
            [[unroll]] for (uint unrolled_c = 0u; unrolled_c < QUADS; unrolled_c++) {
                vec4 low = wide(query[unrolled_c].xy);
                vec4 high = wide(query[unrolled_c].zw);
                [[unroll]] for (uint unrolled_j = 0u; unrolled_j < STEP; unrolled_j++) {
                    uvec4 key = keys[(begin + unrolled_j) * QUADS + unrolled_c];
                    score[unrolled_j] = accumulate(high, wide(key.zw), accumulate(low, wide(key.xy), score[unrolled_j]));
                }
            }
            float most = largest;
            [[unroll]] for (uint unrolled_j = 0u; unrolled_j < STEP; unrolled_j++) {
                int key = int(at + begin + unrolled_j);
                score[unrolled_j] *= push.scale;
                if (SOFT_CAP > 0.0) {
                    score[unrolled_j] = SOFT_CAP * hyperbolic_tangent(score[unrolled_j] / SOFT_CAP);
                }
                if (BIAS) {
                    score[unrolled_j] += bias[table + uint(clamp(key - place, -reach, reach) + reach)];
                }
                if (begin + unrolled_j < count && (!HIDES || sees(mine, key))) {
                    most = max(most, score[unrolled_j]);
                }
            }
            float shrink = exponential(largest - most);
            float sum = 0.0;
            [[unroll]] for (uint unrolled_j = 0u; unrolled_j < STEP; unrolled_j++) {
                bool there = begin + unrolled_j < count && (!HIDES || sees(mine, int(at + begin + unrolled_j)));
                float weight = there ? exponential(score[unrolled_j] - most) : 0.0;
                sum += weight;
                // The mark, below any weight, of a hidden key: 0 times a hidden NaN is not 0.
                score[unrolled_j] = HIDES && !there ? -1.0 : weight;
            }
            total = fma(total, shrink, sum);
            largest = most;
            if (shrink != 1.0) {
                [[unroll]] for (uint unrolled_i = 0u; unrolled_i < 2u * QUADS; unrolled_i++) {
                    result[unrolled_i] *= shrink;
                }
            }
            [[unroll]] for (uint unrolled_j = 0u; unrolled_j < STEP; unrolled_j++) {
                if (HIDES && score[unrolled_j] < 0.0) {
                    continue;
                }
                [[unroll]] for (uint unrolled_c = 0u; unrolled_c < QUADS; unrolled_c++) {
                    uvec4 value = values[(begin + unrolled_j) * QUADS + unrolled_c];
                    result[2u * unrolled_c] = fma(vec4(score[unrolled_j]), wide(value.xy), result[2u * unrolled_c]);
                    result[2u * unrolled_c + 1u] = fma(vec4(score[unrolled_j]), wide(value.zw), result[2u * unrolled_c + 1u]);
                }
            }
        }
    }
    if (first + invocation >= last) {
        return;
    }
    [[unroll]] for (uint unrolled_c = 0u; unrolled_c < QUADS; unrolled_c++) {
        // The weights of a query without keys have a sum of zero.
        vec4 low = total == 0.0 ? vec4(0.0) : result[2u * unrolled_c] / total;
        vec4 high = total == 0.0 ? vec4(0.0) : result[2u * unrolled_c + 1u] / total;
        y[(first + invocation) * push.y_stride + head * QUADS + unrolled_c] = uvec4(narrow(low), narrow(high));
    }
}
