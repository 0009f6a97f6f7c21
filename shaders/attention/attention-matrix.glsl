#version 460
// Computes: y[i, h] = sum_j softmax_j(scale q[i, h] . k[j, g]) v[j, g], j over the keys of i's text, g = h / group, on
// matrix cores: q, k, v, y float16; scores, weights' sums and results in float32; weights are rounded to float16.
// Grid: x = floor(T / (16 SUBGROUPS)) + B tiles of 16 SUBGROUPS queries of one text; y = heads. A subgroup has 16 rows.
// Reduction order: keys in blocks of KEYS from the text's first; within one as the device's matrix cores add.
// Assumes: offsets [B + 1] rise to the rows of q and k; HEAD_DIM a multiple of 16; strides and columns, counted in
// eights here, are whole; subgroups of 128 / SUBGROUPS invocations, 16 to 128; 16 x 16 x 16 matrices.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "counts.glsl"

layout(local_size_x = 128) in;
layout(constant_id = 0) const uint HEAD_DIM = 64;
layout(constant_id = 1) const uint KEYS = 32;
layout(constant_id = 2) const uint SUBGROUPS = 4;

// Eight elements a quad.
layout(std430, binding = 1) readonly buffer Q { uvec4 q[]; };
layout(std430, binding = 2) readonly buffer K { uvec4 k[]; };
layout(std430, binding = 3) readonly buffer V { uvec4 v[]; };
layout(std430, binding = 7) writeonly buffer Y { uvec4 y[]; };

#include "attention-push.glsl"

const uint TILE = 16u * SUBGROUPS;
const uint LANES = 128u / SUBGROUPS;
// Invocations of a row, and the keys of a block that each has.
const uint SHARERS = LANES / 16u;
const uint OWN = KEYS / SHARERS;
// Quads of a head, and of a row in shared memory, with one more so that rows start at different banks.
const uint QUADS = HEAD_DIM / 8u;
const uint STRIDE = QUADS + 1u;
const uint WORK_STRIDE = (KEYS / 4u > QUADS ? KEYS / 4u : QUADS) + 1u;
// Quads of a block's keys, or values, and those that an invocation loads.
const uint BLOCK = KEYS * QUADS;
const uint LOADS = (BLOCK + 127u) / 128u;

shared uvec4 keys_tile[KEYS * STRIDE];
shared uvec4 values_tile[KEYS * STRIDE];
// A subgroup's 16 rows of queries, then of scores, of weights in their place, and of results.
shared uvec4 work[TILE * WORK_STRIDE];
shared float factor[TILE];

#define SUM coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define HALF coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define LEFT coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define RIGHT coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
const uint SLICES = HEAD_DIM / 16u;

// The block to come waits here while one is worked on.
uvec4 keys_next[LOADS];
uvec4 values_next[LOADS];

void fetch(uint first, uint end, uint k_column, uint v_column) {
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint at = gl_LocalInvocationIndex + 128u * i;
        uint row = first + at / QUADS;
        // Past the text's last key: zeros, so that what lies there, which may be no number, counts for nothing.
        bool there = row < end && at < BLOCK;
        row = there ? row : first;
        uvec4 key = k[row * push.k_stride + k_column + at % QUADS];
        uvec4 value = v[row * push.v_stride + v_column + at % QUADS];
        keys_next[i] = there ? key : uvec4(0u);
        values_next[i] = there ? value : uvec4(0u);
    }
}

void store() {
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint at = gl_LocalInvocationIndex + 128u * i;
        if (at < BLOCK) {
            keys_tile[at / QUADS * STRIDE + at % QUADS] = keys_next[i];
            values_tile[at / QUADS * STRIDE + at % QUADS] = values_next[i];
        }
    }
}

void main() {
    // Text i owns the tiles from floor(q_offsets[i] / TILE) + i on; the last of some are empty.
    uint low = 0u;
    uint high = counts.texts;
    while (high - low > 1u) {
        uint middle = (low + high) / 2u;
        if (q_offsets[middle] / TILE + middle <= gl_WorkGroupID.x) {
            low = middle;
        } else {
            high = middle;
        }
    }
    uint text_first = q_offsets[low];
    uint first = text_first + (gl_WorkGroupID.x - (text_first / TILE + low)) * TILE;
    uint last = q_offsets[low + 1u];
    if (first >= last) {
        return;
    }
    uint key_first = kv_offsets[low];
    uint key_last = kv_offsets[low + 1u];
    uint head = gl_WorkGroupID.y;
    uint k_column = push.k_column + head / push.group * QUADS;
    uint v_column = push.v_column + head / push.group * QUADS;
    uint lane = gl_SubgroupInvocationID;
    uint own_row = 16u * gl_SubgroupID;
    uint own_work = own_row * WORK_STRIDE;
    // Rows past the text's end repeat its last; a subgroup that has none but these rests.
    bool busy = first + own_row < last;

    LEFT query[SLICES];
    SUM result[SLICES];
    for (uint i = lane; i < 16u * QUADS; i += LANES) {
        uint row = min(first + own_row + i / QUADS, last - 1u);
        work[own_work + i / QUADS * WORK_STRIDE + i % QUADS] = q[row * push.q_stride + push.q_column + head * QUADS + i % QUADS];
    }
    subgroupBarrier();
    [[unroll]] for (uint i = 0u; i < SLICES; i++) {
        coopMatLoad(query[i], work, own_work + 2u * i, WORK_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        result[i] = SUM(0.0);
    }
    subgroupBarrier();

    // Powers of two: the scale and log2 e are one factor.
    float scale = push.scale * 1.44269504;
    float largest = uintBitsToFloat(0xff800000u);
    float total = 0.0;
    uint row = lane / SHARERS;
    uint part = lane % SHARERS;
    if (key_first < key_last) {
        fetch(key_first, key_last, k_column, v_column);
        store();
        barrier();
    }
    for (uint block = key_first; block < key_last; block += KEYS) {
        bool more = block + KEYS < key_last;
        if (more) {
            fetch(block + KEYS, key_last, k_column, v_column);
        }
        if (busy) {
            [[unroll]] for (uint n = 0u; n < KEYS / 16u; n++) {
                SUM score = SUM(0.0);
                [[unroll]] for (uint i = 0u; i < SLICES; i++) {
                    RIGHT key;
                    coopMatLoad(key, keys_tile, 16u * n * STRIDE + 2u * i, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
                    score = coopMatMulAdd(query[i], key, score);
                }
                coopMatStore(score, work, own_work + 4u * n, WORK_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            }
            subgroupBarrier();
            uint at = own_work + row * WORK_STRIDE;
            uint mine = min(key_last - block, KEYS);
            mine = mine - min(mine, part * OWN);
            float weight[OWN];
            float most = largest;
            [[unroll]] for (uint i = 0u; i < OWN / 4u; i++) {
                vec4 quad = uintBitsToFloat(work[at + part * OWN / 4u + i]) * scale;
                [[unroll]] for (uint e = 0u; e < 4u; e++) {
                    weight[4u * i + e] = quad[e];
                    most = 4u * i + e < mine ? max(most, quad[e]) : most;
                }
            }
            [[unroll]] for (uint reach = 1u; reach < SHARERS; reach *= 2u) {
                most = max(most, subgroupShuffleXor(most, reach));
            }
            float shrink = exp2(largest - most);
            largest = most;
            float sum = 0.0;
            // All have read their scores before weights take their place.
            subgroupBarrier();
            [[unroll]] for (uint i = 0u; i < OWN; i += 8u) {
                [[unroll]] for (uint e = 0u; e < 8u; e++) {
                    weight[i + e] = i + e < mine ? exp2(weight[i + e] - most) : 0.0;
                    sum += weight[i + e];
                }
                work[at + (part * OWN + i) / 8u] = uvec4(
                    packHalf2x16(vec2(weight[i], weight[i + 1u])), packHalf2x16(vec2(weight[i + 2u], weight[i + 3u])),
                    packHalf2x16(vec2(weight[i + 4u], weight[i + 5u])), packHalf2x16(vec2(weight[i + 6u], weight[i + 7u])));
            }
            [[unroll]] for (uint reach = 1u; reach < SHARERS; reach *= 2u) {
                sum += subgroupShuffleXor(sum, reach);
            }
            total = fma(total, shrink, sum);
            bool shrinks = subgroupMin(shrink) != 1.0;
            if (shrinks && part == 0u) {
                factor[own_row + row] = shrink;
            }
            subgroupBarrier();
            if (shrinks) {
                SUM each;
                coopMatLoad(each, factor, own_row, 0u, gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint i = 0u; i < SLICES; i++) {
                    [[unroll]] for (uint e = 0u; e < result[i].length(); e++) {
                        result[i][e] *= each[e];
                    }
                }
            }
            [[unroll]] for (uint n = 0u; n < KEYS / 16u; n++) {
                LEFT weights;
                coopMatLoad(weights, work, own_work + 2u * n, WORK_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint i = 0u; i < SLICES; i++) {
                    RIGHT value;
                    coopMatLoad(value, values_tile, 16u * n * STRIDE + 2u * i, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                    result[i] = coopMatMulAdd(weights, value, result[i]);
                }
            }
            subgroupBarrier();
        }
        barrier();
        if (more) {
            store();
            barrier();
        }
    }

    if (!busy) {
        return;
    }
    if (part == 0u) {
        // A text without keys has weights of no sum.
        factor[own_row + row] = total == 0.0 ? 0.0 : 1.0 / total;
    }
    subgroupBarrier();
    SUM each;
    coopMatLoad(each, factor, own_row, 0u, gl_CooperativeMatrixLayoutColumnMajor);
    [[unroll]] for (uint i = 0u; i < SLICES; i++) {
        [[unroll]] for (uint e = 0u; e < result[i].length(); e++) {
            result[i][e] *= each[e];
        }
        coopMatStore(HALF(result[i]), work, own_work + 2u * i, WORK_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    }
    subgroupBarrier();
    for (uint i = lane; i < 16u * QUADS; i += LANES) {
        uint at = first + own_row + i / QUADS;
        if (at < last) {
            y[at * push.y_stride + head * QUADS + i % QUADS] = work[own_work + i / QUADS * WORK_STRIDE + i % QUADS];
        }
    }
}
