#version 460
// Computes: y[m, n] = scale sum_k a[m, k] b[n, k] for each of outer x inner batches; a, b and y by strides. Also serves
// as `attention_scores`, with other strides.
// Grid: x = ceil(N / TILE_N), y = ceil(M / TILE_M), z loops over batches, and over tiles beyond 65,535 along an axis; 16 x
// 16 invocations, each TILE_M/16 x TILE_N/16.
// Reduction order: one fma per step, k = 0, 1, ... K - 1, from zero: the same for every tile size and every M.
// Assumes: TILE_M, TILE_N multiples of 16, times TILE_K multiples of 1024; fewer than 2^32 elements.
//# made_of = { constants = "Tile" }
#include "product/matmul-interface.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint TILE_M = 64;
layout(constant_id = 1) const uint TILE_N = 64;
layout(constant_id = 2) const uint TILE_K = 16;
#include "product/product-tiles.glsl"

// The row and quad, in a tile of `tile` rows, that slot i of its loads fills.
uvec2 place(uint mode, uint tile, uint i) {
    return mode == 2u ? uvec2(i % tile, i / tile) : uvec2(i / QUADS, i % QUADS);
}

void multiply() {
    uint invocation = gl_LocalInvocationIndex;
    uint tx = invocation % 16u;
    uint ty = invocation / 16u;
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
    for (uint turn = gl_WorkGroupID.z; turn < all_turns(TILE_M, TILE_N); turn += gl_NumWorkGroups.z) {
        set_turn(turn, TILE_M, TILE_N);
        multiply();
    }
}
