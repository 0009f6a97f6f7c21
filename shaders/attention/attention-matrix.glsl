#version 460
// Computes: y[i, h] = sum_j softmax_j(cap(scale q[i, h] . k[j, g]) + bias[h, j - place(i)]) v[j, g], j over the keys of
// i's text that i sees, g = h / group, cap(s) = SOFT_CAP tanh(s / SOFT_CAP), or s, on matrix cores: q, k, v, y float16
// or bfloat16; scores, sums of weights and results in float32; weights are rounded to the type of v.
// Grid: x = floor(T / TILE) + B tiles of TILE = MATRIX_M SUBGROUPS queries of one text, continued along z; y = heads. A
// subgroup has MATRIX_M rows.
// Reduction order: keys in blocks of KEYS from the text's first; within a block, the order of the device's matrix
// cores. A block without visible keys for a subgroup's rows is skipped; one without visible keys for a row changes none
// of its bits.
// Assumes: offsets [B + 1] increase to the rows of q and k; HEAD_DIM a multiple of 16; strides and columns, counted in
// eights here, are integers; subgroups of INVOCATIONS / SUBGROUPS invocations, MATRIX_M to 4 MATRIX_M; MATRIX_N =
// MATRIX_K. With ROWS_IN_LANES the matrix layout that matrix-layout.glsl finds; without it no keys are hidden.
//# # 16 bits on matrix cores: in registers where it is known which lane holds which element, as bfloat16 demands.
//# stored = ["float16", "bfloat16"]
//# made_of = { constants = "Blocks" }
//#
//# [[variants]]
//# # Of numbers NVIDIA's driver makes faster code than of constants.
//# name = "rows-in-quads"
//# only = ["float16"]
//# needs = ["matrix_rows_in_quads", "matrix_rows_in_lanes", "coopmat_f16_f32_16x16x16", "float16", "storage16", "subgroup_shuffle", "subgroup_arithmetic", "subgroup_vote"]
//# when = ["subgroup_size >= 32", "subgroup_size <= 32", "k % 16", "k >= 16", "k <= 256"]
//# defines = { ROWS_IN_LANES = "1", MATRIX_M = "16u", MATRIX_N = "16u", MATRIX_K = "16u", LANES = "32u", ROW_LANES = "4u", RUN = "2u" }
//#
//# [[variants]]
//# name = "rows-in-lanes"
//# only = ["float16"]
//# matrices = "f16_f32"
//# needs = ["matrix_rows_in_lanes", "float16", "storage16", "subgroup_shuffle", "subgroup_arithmetic", "subgroup_vote"]
//# when = ["k % 16", "k >= 16", "k <= 256"]
//# defines = { ROWS_IN_LANES = "1" }
//#
//# [[variants]]
//# only = ["float16"]
//# matrices = "f16_f32"
//# needs = ["float16", "storage16", "subgroup_shuffle", "subgroup_arithmetic", "subgroup_vote"]
//# when = ["k % 16", "k >= 16", "k <= 128"]
//#
//# [[variants]]
//# name = "rows-in-quads"
//# only = ["bfloat16"]
//# needs = ["matrix_rows_in_quads", "matrix_rows_in_lanes", "coopmat_bf16_f32_16x16x16", "float16", "subgroup_shuffle", "subgroup_arithmetic", "subgroup_vote"]
//# when = ["subgroup_size >= 32", "subgroup_size <= 32", "k % 16", "k >= 16", "k <= 256"]
//# defines = { ROWS_IN_LANES = "1", MATRIX_M = "16u", MATRIX_N = "16u", MATRIX_K = "16u", LANES = "32u", ROW_LANES = "4u", RUN = "2u" }
//#
//# [[variants]]
//# name = "rows-in-lanes"
//# only = ["bfloat16"]
//# matrices = "bf16_f32"
//# needs = ["matrix_rows_in_lanes", "float16", "subgroup_shuffle", "subgroup_arithmetic", "subgroup_vote"]
//# when = ["k % 16", "k >= 16", "k <= 256"]
//# defines = { ROWS_IN_LANES = "1" }
#include "stored.glsl"
#include "matrix/cooperative-matrix.glsl"
#include "attention/attention-halves.glsl"
#include "attention/attention-tile.glsl"

// Whether scores change by more than a factor.
#define CHANGES (BIAS || SOFT_CAP > 0.0)

// Eight elements per quad.
layout(std430, binding = 1) readonly buffer Q { uvec4 q[]; };
layout(std430, binding = 2) readonly buffer K { uvec4 k[]; };
layout(std430, binding = 3) readonly buffer V { uvec4 v[]; };
layout(std430, binding = 7) writeonly buffer Y { uvec4 y[]; };

// Quads of a head, and of a row in shared memory, plus one so that rows start at different banks.
const uint QUADS = HEAD_DIM / 8u;
const uint STRIDE = QUADS + 1u;
// Quads of a block's keys, or values, and quads that an invocation loads.
const uint BLOCK = KEYS * QUADS;
const uint LOADS = (BLOCK + INVOCATIONS - 1u) / INVOCATIONS;

// The block's keys, then its values; before the loop the tile's queries, after it its results.
const uint VALUES = KEYS * STRIDE;
shared uvec4 tile[(2u * KEYS > TILE ? 2u * KEYS : TILE) * STRIDE];
// The index after the first key of the last block that contained a NaN or infinite value which some query might not
// see.
shared uint tainted;

// The weights of the block's scores.
LEFT weight[WIDE];
// Powers of two: the scale and log2 e are one factor, unless scores change in between.
float scale;
// The row of the biases.
uint table;

// A score times the scale, capped, plus the bias of key `key` for row `row` of the subgroup.
float changed(float product, uint key, uint row) {
    int far = clamp(int(key) - own_place - int(row), -int(push.reach), int(push.reach));
    if (SOFT_CAP > 0.0) {
        float capped = SOFT_CAP * hyperbolic_tangent(product * push.scale / SOFT_CAP);
        return BIAS ? capped + bias[int(table) + far] : capped;
    }
    return fma(product, push.scale, bias[int(table) + far]);
}

#ifdef ROWS_IN_LANES
#include "attention-matrix.rows-in-lanes.glsl"
#else
#include "attention-matrix.rows-shared.glsl"
#endif

// Loads keys at .. at + KEYS - 1 of the text; zeros past its last key, so that whatever is stored there has no effect.
void load(uint key_first, uint at, uint count, uint k_column, uint v_column, bool edge) {
    uvec4 keys[LOADS];
    uvec4 values[LOADS];
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint quad = gl_LocalInvocationIndex + INVOCATIONS * i;
        bool there = at + quad / QUADS < count && quad < BLOCK;
        uint row = key_first + (there ? at + quad / QUADS : at);
        keys[i] = mix(uvec4(0u), k[row * push.k_stride + k_column + quad % QUADS], bvec4(there));
        values[i] = mix(uvec4(0u), v[row * push.v_stride + v_column + quad % QUADS], bvec4(there));
    }
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint quad = gl_LocalInvocationIndex + INVOCATIONS * i;
        if (quad < BLOCK) {
            uint slot = quad / QUADS * STRIDE + quad % QUADS;
            if (HIDES && edge) {
                uvec4 clean = finite(values[i]);
                if (clean != values[i]) {
                    tainted = at + 1u;
                }
                values[i] = clean;
            }
            tile[slot] = keys[i];
            tile[VALUES + slot] = values[i];
        }
    }
}

void main() {
    if (set_tile()) {
        return;
    }
    uint head = gl_WorkGroupID.y;
    uint k_column = push.k_column + head / push.group * QUADS;
    uint v_column = push.v_column + head / push.group * QUADS;
    uint lane = gl_SubgroupInvocationID;
    table = BIAS ? bias_row(head) : 0u;
    scale = CHANGES ? LOG2_E : abs(push.scale) * LOG2_E;

    // Rows past the text's end repeat its last. A negative scale moves to the queries: the largest score then has the largest weight.
    uvec4 sign = uvec4(!CHANGES && push.scale < 0.0 ? 0x80008000u : 0u);
    for (uint i = lane; i < MATRIX_M * QUADS; i += LANES) {
        uint row = min(first + own_row + i / QUADS, last - 1u);
        tile[(own_row + i / QUADS) * STRIDE + i % QUADS] =
            sign ^ q[row * push.q_stride + push.q_column + head * QUADS + i % QUADS];
    }
    if (gl_LocalInvocationIndex == 0u) {
        tainted = 0u;
    }
    subgroupBarrier();
    LEFT query[SLICES];
    [[unroll]] for (uint i = 0u; i < SLICES; i++) {
        coopMatLoad(query[i], tile, own_row * STRIDE + TERM_QUADS * i, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        result[i] = SUM(0.0);
    }
    begin(key_count);
    uint limit = uint(end_of(some));
    for (uint at = 0u; at < limit; at += KEYS) {
        if (WINDOW && int(at) >= some.leading) {
            // Blocks that no query of the tile sees are skipped.
            at = max(at, uint(some.begin) / KEYS * KEYS);
        }
        int keys = int(min(KEYS, key_count - at));
        barrier();
        load(key_first, at, key_count, k_column, v_column, HIDES && !sees_each(each, int(at), keys));
        barrier();
        if (!busy || (HIDES && !sees_some(own_some, int(at), keys))) {
            continue;
        }
        [[unroll]] for (uint n = 0u; n < WIDE; n++) {
            score[n] = SUM(0.0);
            [[unroll]] for (uint i = 0u; i < SLICES; i++) {
                RIGHT key;
                coopMatLoad(key, tile, MATRIX_N * n * STRIDE + TERM_QUADS * i, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
                score[n] = coopMatMulAdd(query[i], key, score[n]);
            }
        }
        soften(at, key_count, HIDES && !sees_each(own_each, int(at), keys));
        [[unroll]] for (uint n = 0u; n < WIDE; n++) {
            [[unroll]] for (uint i = 0u; i < SLICES; i++) {
                RIGHT value;
                coopMatLoad(value, tile, VALUES + MATRIX_N * n * STRIDE + TERM_QUADS * i, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                result[i] = coopMatMulAdd(weight[n], value, result[i]);
            }
        }
        if (HIDES && tainted == at + 1u) {
            add_others(at, key_count, key_first, v_column);
        }
    }
    barrier();
    if (!busy) {
        return;
    }
    divide();
#if STORED == FLOAT16
    [[unroll]] for (uint i = 0u; i < SLICES; i++) {
        coopMatStore(HALF(result[i]), tile, own_row * STRIDE + TERM_QUADS * i, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    }
#else
    put();
#endif
    subgroupBarrier();
    for (uint i = lane; i < MATRIX_M * QUADS; i += LANES) {
        uint at = first + own_row + i / QUADS;
        if (at < last) {
            y[at * push.y_stride + head * QUADS + i % QUADS] = tile[(own_row + i / QUADS) * STRIDE + i % QUADS];
        }
    }
}
