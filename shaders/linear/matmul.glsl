#version 460
// Computes: y[m, n] = scale sum_k a[m, k] b[n, k] for each of outer x inner batches; a, b and y by strides. Also serves
// as `attention_scores`, with other strides.
// Grid: x = ceil(N / TILE_N), y = ceil(M / TILE_M), z loops over batches; 16 x 16 invocations, each TILE_M/16 x
// TILE_N/16.
// Reduction order: one fma per step, k = 0, 1, ... K - 1, from zero: the same for every tile size and every M.
// Assumes: TILE_M, TILE_N multiples of 16, times TILE_K multiples of 1024; fewer than 2^32 elements.
#extension GL_EXT_control_flow_attributes : require
#include "stored.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint TILE_M = 64;
layout(constant_id = 1) const uint TILE_N = 64;
layout(constant_id = 2) const uint TILE_K = 16;
// How a tile is read. 0: neighbouring invocations along k; 1: the same, four elements at once, which start at multiples
// of four; 2: neighbouring invocations along m or n.
layout(constant_id = 3) const uint A_LOAD = 0;
layout(constant_id = 4) const uint B_LOAD = 0;

INPUT(0, a, vec4)
INPUT(1, b, vec4)
layout(std430, binding = 2) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
    uint m;
    uint n;
    uint k;
    uint batches;
    // Batch i is batch i % inner of outer batch i / inner.
    uint inner;
    // Inner batches that share one matrix of b.
    uint group;
    // Strides between rows (columns, terms, batches), in elements.
    uint a_row;
    uint a_k;
    uint a_outer;
    uint a_inner;
    uint b_column;
    uint b_k;
    uint b_outer;
    uint b_inner;
    uint y_row;
    uint y_outer;
    uint y_inner;
    float scale;
} push;

float accumulate(vec4 a, vec4 b, float sum) {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

#include "product-tiles.glsl"

// Row `row` of a matrix that starts at `base`, terms k .. k + 3; zeros past the last row of `rows` and the last term.
#define LOAD(LOADS, NAME, MODE, LINE, TERM)                                                                            \
    vec4 LOADS(uint base, uint row, uint k, uint rows) {                                                               \
        bool there = row < rows && k < push.k;                                                                         \
        uint at = there ? base + row * LINE + k * TERM : 0u;                                                           \
        PADDED_QUAD(NAME, MODE == 1u, TERM, push.k - 1u - k)                                                           \
        return mix(quad, vec4(0.0), bvec4(!there));                                                                    \
    }

LOAD(load_a, a, A_LOAD, push.a_row, push.a_k)
LOAD(load_b, b, B_LOAD, push.b_column, push.b_k)

// The row and quad, in a tile of `tile` rows, that slot i of its loads fills.
uvec2 place(uint mode, uint tile, uint i) {
    return mode == 2u ? uvec2(i % tile, i / tile) : uvec2(i / QUADS, i % QUADS);
}

void multiply(uint batch) {
    uint invocation = gl_LocalInvocationIndex;
    uint tx = invocation % 16u;
    uint ty = invocation / 16u;
    uint outer = batch / push.inner;
    uint inner = batch % push.inner;
    uint a_base = outer * push.a_outer + inner * push.a_inner;
    uint b_base = outer * push.b_outer + inner / push.group * push.b_inner;
    uint first_row = gl_WorkGroupID.y * TILE_M;
    uint first_column = gl_WorkGroupID.x * TILE_N;

    begin_sums();
    for (uint start = 0u; start < push.k + TILE_K; start += TILE_K) {
        if (start > 0u) {
            barrier();
            [[unroll]] for (uint i = 0u; i < A_LOADS; i++) {
                uvec2 to = place(A_LOAD, TILE_M, invocation + 256u * i);
                a_tile[to.x * STRIDE + to.y] = next_a[i];
            }
            [[unroll]] for (uint i = 0u; i < B_LOADS; i++) {
                uvec2 to = place(B_LOAD, TILE_N, invocation + 256u * i);
                b_tile[to.x * STRIDE + to.y] = next_b[i];
            }
            barrier();
        }
        if (start < push.k) {
            [[unroll]] for (uint i = 0u; i < A_LOADS; i++) {
                uvec2 from = place(A_LOAD, TILE_M, invocation + 256u * i);
                next_a[i] = load_a(a_base, first_row + from.x, start + 4u * from.y, push.m);
            }
            [[unroll]] for (uint i = 0u; i < B_LOADS; i++) {
                uvec2 from = place(B_LOAD, TILE_N, invocation + 256u * i);
                next_b[i] = load_b(b_base, first_column + from.x, start + 4u * from.y, push.n);
            }
        }
        if (start > 0u) {
            multiply_tiles(tx, ty);
        }
    }

    uint y_base = outer * push.y_outer + inner * push.y_inner;
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        uint row = first_row + ty + 16u * i;
        [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
            uint n = first_column + tx + 16u * j;
            if (row < push.m && n < push.n) {
                y[y_base + row * push.y_row + n] = push.scale * sum[i * COLUMNS + j];
            }
        }
    }
}

void main() {
    for (uint batch = gl_WorkGroupID.z; batch < push.batches; batch += gl_NumWorkGroups.z) {
        multiply(batch);
    }
}
