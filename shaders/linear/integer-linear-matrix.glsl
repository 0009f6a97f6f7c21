#version 460
// Computes: y[m, n] = sum_k q[m, k] weight[n, k] on matrix cores; q [rows, k] int8, sixteen per quad, weight [n, k] of LEVELS,
// sixteen in a quad, a word or half a word, y [rows, n] int32, four per quad. With SCALED y = act(s / scale[m] + bias[n]) +
// residual[m, n] as floats, s = sum_k (q[m, k] - zero[m]) weight[n, k] / weight_scale[n], scale and zero as integer-linear.glsl.
// Grid: y = ceil(rows / (8 * TILE_M)), x = 8 * ceil(n / TILE_N), as linear-matrix.glsl. SUBGROUPS subgroups, each with a
// part of the tile.
// Reduction order: irrelevant; sums of integers are exact.
// Assumes: k a multiple of 16, k < 2^17, with PAIRS 2^16, n of 4; TILE_K a multiple of 32; matrices of 16 x 16 sums of 32 terms; subgroups of
// 256 / SUBGROUPS invocations.
//# # Where there are no matrix cores for 8-bit integers, `integer-linear` runs, with the same result.
//# optional = true
//# variants = [{ needs = ["coopmat_s8_s32_16x16x32", "int8", "integer_dot_product"] }]
//#
//# [builds]
//# quantized-linear-matrix = { define = "SCALED", stored = ["float32", "float16", "bfloat16"] }
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_spirv_intrinsics : require
#define ELEMENT int8_t
#define SUM_ELEMENT int
#define TERMS 32
#include "cooperative-matrix.glsl"
#include "counts.glsl"
#include "levels.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint TILE_M = 64;
layout(constant_id = 1) const uint TILE_N = 64;
layout(constant_id = 2) const uint TILE_K = 64;
layout(constant_id = 3) const uint SUBGROUPS = 8;
// Whether TILE_K divides k: then no bounds checks are needed.
layout(constant_id = 4) const bool WHOLE = false;
layout(constant_id = 5) const uint LEVELS = INT8;

const uint GROUP = 8u;
#include "subgroup-tiles.glsl"
// Quads of a row in shared memory, plus one so that rows start at different banks.
const uint QUADS = TILE_K / 16u;
const uint STRIDE = QUADS + 1u;
const uint OPERANDS = (TILE_M + TILE_N) * STRIDE;
// Results pass through shared memory one column of matrices of each subgroup at a time.
const uint OUT_STRIDE = 2u * 4u + 1u;
const uint RESULT = TILE_M * OUT_STRIDE;
// Quads that an invocation loads per step, and the rows between them.
const uint Q_LOADS = (TILE_M * QUADS + 255u) / 256u;
const uint W_LOADS = (TILE_N * QUADS + 255u) / 256u;
const uint STEP = 256u / QUADS;

layout(std430, binding = 1) readonly buffer Q { uvec4 q[]; };
#ifdef SCALED
#include "activate.glsl"
#include "stored.glsl"
layout(constant_id = 6) const uint ACTIVATION = 0;
layout(constant_id = 7) const bool BIAS = false;
layout(constant_id = 8) const bool RESIDUAL = false;
layout(constant_id = 9) const bool PAIRS = false;
// Whether all columns share a scale.
layout(constant_id = 10) const bool SHARED = false;
#define WEIGHT 3
layout(std430, binding = 2) readonly buffer Scale { float scale[]; };
INPUT(4, weight_scale, vec4)
layout(std430, binding = 5) readonly buffer Bias { vec4 bias[]; };
layout(std430, binding = 6) readonly buffer Residual { QUAD residual[]; };
layout(std430, binding = 7) writeonly buffer Y { QUAD y[]; };
#else
#define WEIGHT 2
layout(std430, binding = 3) writeonly buffer Y { uvec4 y[]; };
#endif
layout(std430, binding = WEIGHT) readonly buffer Words { uint weight[]; };
layout(std430, binding = WEIGHT) readonly buffer Quads { uvec4 weight_4[]; };

layout(push_constant) uniform Push {
    uint rows_of;
    uint rows;
    uint n;
    uint k;
} push;

// The tiles of q and of the weight; in the end, results.
shared uvec4 tile[OPERANDS > RESULT ? OPERANDS : RESULT];
// Start indices of this invocation's quads, and the quads of the next step, which stay here while a step is multiplied.
uint q_at[Q_LOADS];
uint w_at[W_LOADS];
uvec4 q_next[Q_LOADS];
uvec4 w_next[W_LOADS];
#ifdef SCALED
// Sums of the weight's columns: of this invocation's quads of the steps before `summed`, and of all.
int w_sum[W_LOADS];
uint summed = 0u;
shared int column_sum[TILE_N];

spirv_instruction(capabilities = [6019, 6018], id = 4450)
int signed_dot(uint a, uint b, spirv_literal uint format);
#endif

// Sixteen integers of the weight, in fewer bits in the last word.
uvec4 sixteen(uint at) {
    if (LEVELS == INT8) {
        return weight_4[at];
    }
    return uvec4(LEVELS == TERNARY ? weight[at] : weight[at / 2u] >> (16u * (at % 2u)));
}

uvec4 unpacked(uvec4 stored) {
    if (LEVELS == INT8) {
        return stored;
    }
    const uint bits = LEVELS == TERNARY ? 8u : 4u;
    uvec4 codes;
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        codes[i] = bytes_of_four(LEVELS, bitfieldExtract(stored.x, int(bits * i), int(bits)));
    }
    return codes;
}

bool inside(uint step) {
    return WHOLE || step * QUADS + gl_LocalInvocationIndex % QUADS < push.k / 16u;
}

void fetch(uint step) {
    bool there = inside(step);
    [[unroll]] for (uint i = 0u; i < Q_LOADS; i++) {
        q_next[i] = there ? q[q_at[i] + step * QUADS] : uvec4(0u);
    }
    [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
        // Past the end q is 0, and the weight does not matter.
        w_next[i] = there ? sixteen(w_at[i] + step * QUADS) : uvec4(0u);
    }
}

void store(uint step) {
    uint row = gl_LocalInvocationIndex / QUADS;
    uint at = row * STRIDE + gl_LocalInvocationIndex % QUADS;
    [[unroll]] for (uint i = 0u; i < Q_LOADS; i++) {
        if (TILE_M % STEP == 0u || row + i * STEP < TILE_M) {
            tile[at + i * STEP * STRIDE] = q_next[i];
        }
    }
    [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
        if (TILE_N % STEP == 0u || row + i * STEP < TILE_N) {
            uvec4 quad = unpacked(w_next[i]);
            tile[at + (TILE_M + i * STEP) * STRIDE] = quad;
#ifdef SCALED
            if (PAIRS && step == summed && inside(step)) {
                [[unroll]] for (uint j = 0u; j < 4u; j++) {
                    w_sum[i] += signed_dot(quad[j], 0x01010101u, 0u);
                }
            }
#endif
        }
    }
#ifdef SCALED
    // The last step is stored twice.
    summed = step + 1u;
#endif
}

void main() {
    uint rows = batch_rows(push.rows_of, push.rows);
    uint row_tiles = (rows + TILE_M - 1u) / TILE_M;
    uint first_tile = gl_WorkGroupID.y * GROUP;
    uint height = min(GROUP, row_tiles - min(first_tile, row_tiles));
    // The last group may have fewer tiles.
    if (gl_WorkGroupID.x >= height * ((push.n + TILE_N - 1u) / TILE_N)) {
        return;
    }
    uint first_row = (first_tile + gl_WorkGroupID.x % height) * TILE_M;
    uint first_column = gl_WorkGroupID.x / height * TILE_N;
    uint own_row = gl_SubgroupID % DOWN * HEIGHT;
    uint own_half = gl_SubgroupID / DOWN;
    uint own_column = own_half * WIDTH;
    uint me = gl_LocalInvocationIndex;

    // Rows past the last repeat it; their results are not written.
    [[unroll]] for (uint i = 0u; i < Q_LOADS; i++) {
        q_at[i] = min(first_row + me / QUADS + i * STEP, rows - 1u) * (push.k / 16u) + me % QUADS;
    }
    [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
        w_at[i] = min(first_column + me / QUADS + i * STEP, push.n - 1u) * (push.k / 16u) + me % QUADS;
    }
    fetch(0u);
#ifdef SCALED
    if (PAIRS) {
        [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
            w_sum[i] = 0;
        }
        for (uint i = me; i < TILE_N; i += 256u) {
            column_sum[i] = 0;
        }
    }
#endif
    SUM sum[ROWS][COLUMNS];
    [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            sum[i][j] = SUM(0);
        }
    }
    store(0u);
    barrier();
    uint steps = (push.k + TILE_K - 1u) / TILE_K;
#include "matrix-steps.glsl"

#ifdef SCALED
    if (PAIRS) {
        [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
            if (TILE_N % STEP == 0u || me / QUADS + i * STEP < TILE_N) {
                atomicAdd(column_sum[me / QUADS + i * STEP], w_sum[i]);
            }
        }
    }
#endif
    uint row_quads = push.n / 4u;
    [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
        if (j > 0u) {
            barrier();
        }
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            uint at = (own_row + 16u * i) * OUT_STRIDE + 4u * own_half;
            coopMatStore(sum[i][j], tile, at, OUT_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        }
        barrier();
        // An invocation's quads are of the same columns in every row.
        uint own = me % 8u / 4u * WIDTH + 16u * j + 4u * (me % 4u);
        uint column = first_column / 4u + own / 4u;
        if (column < row_quads) {
#ifdef SCALED
            vec4 factor = SHARED ? vec4(weight_scale[0]) : weight_scale_4[column];
            vec4 added = BIAS ? bias[column] : vec4(0.0);
            ivec4 ones = PAIRS ? ivec4(column_sum[own], column_sum[own + 1u], column_sum[own + 2u], column_sum[own + 3u])
                               : ivec4(0);
#endif
            for (uint i = me / 8u; i < TILE_M && first_row + i < rows; i += 32u) {
                uvec4 sums = tile[i * OUT_STRIDE + me % 8u];
                uint row = first_row + i;
                uint at = row * row_quads + column;
#ifdef SCALED
                float row_scale = scale[PAIRS ? 2u * row : row];
                int zero = PAIRS ? int(scale[2u * row + 1u]) : 0;
                vec4 found = vec4(ivec4(sums) - zero * ones) / factor / row_scale + added;
                [[unroll]] for (uint e = 0u; e < 4u; e++) {
                    found[e] = activate(ACTIVATION, found[e]);
                }
                y[at] = narrow(RESIDUAL ? found + wide(residual[at]) : found);
#else
                y[at] = sums;
#endif
            }
        }
    }
}
