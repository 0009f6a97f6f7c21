#version 460
// Computes: y[m, n] = sum_k q[m, k] weight[n, k] on matrix cores; q [rows, k], weight [n, k] int8, sixteen per quad,
// y [rows, n] int32, four per quad.
// Grid: y = ceil(rows / (8 * TILE_M)), x = 8 * ceil(n / TILE_N), as linear-matrix.glsl. SUBGROUPS subgroups, each with a
// part of the tile.
// Reduction order: irrelevant; sums of integers are exact.
// Assumes: k a multiple of 16, k < 2^17, n of 4; TILE_K a multiple of 32; matrices of 16 x 16 sums of 32 terms; subgroups of
// 256 / SUBGROUPS invocations.
//# # Where there are no matrix cores for 8-bit integers, `integer-linear` runs, with the same result.
//# optional = true
//# variants = [{ needs = ["coopmat_s8_s32_16x16x32", "int8"] }]
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#define ELEMENT int8_t
#define SUM_ELEMENT int
#define TERMS 32
#include "cooperative-matrix.glsl"
#include "counts.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint TILE_M = 64;
layout(constant_id = 1) const uint TILE_N = 64;
layout(constant_id = 2) const uint TILE_K = 64;
layout(constant_id = 3) const uint SUBGROUPS = 8;
// Whether TILE_K divides k: then no bounds checks are needed.
layout(constant_id = 4) const bool WHOLE = false;

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
layout(std430, binding = 2) readonly buffer Weight { uvec4 weight[]; };
layout(std430, binding = 3) writeonly buffer Y { uvec4 y[]; };

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

void fetch(uint step) {
    bool there = WHOLE || step * QUADS + gl_LocalInvocationIndex % QUADS < push.k / 16u;
    [[unroll]] for (uint i = 0u; i < Q_LOADS; i++) {
        q_next[i] = there ? q[q_at[i] + step * QUADS] : uvec4(0u);
    }
    [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
        w_next[i] = there ? weight[w_at[i] + step * QUADS] : uvec4(0u);
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
            tile[at + (TILE_M + i * STEP) * STRIDE] = w_next[i];
        }
    }
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
        for (uint i = me; i < TILE_M * 8u; i += 256u) {
            uint row = first_row + i / 8u;
            uint column = (first_column + i % 8u / 4u * WIDTH + 16u * j) / 4u + i % 4u;
            if (row < rows && column < row_quads) {
                y[row * row_quads + column] = tile[i / 8u * OUT_STRIDE + i % 8u];
            }
        }
    }
}
