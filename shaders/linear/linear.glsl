#version 460
// Computes: y = act(x W^T + b) + residual; x [M, K], weight [N, K], bias [*], residual, y [M, y_columns]; or, with GATED,
// act(x gate^T) (x up^T); with NORMED and with FOLDED, act(layer_norm(x) W^T + b); with EXPERTS by several W [E, N, K].
// Grid: x = ceil(N / TILE_N), y = ceil(M / TILE_M), with EXPERTS as many as these have tiles, continued along z; 16 x 16
// invocations, each TILE_M/16 x TILE_N/16 results.
// Reduction order: one fma per step, k = 0, 1, ... K - 1, from zero: the same for every tile size and every M.
// Assumes: TILE_M a multiple of 16, TILE_N of 64, times TILE_K of 1024; with VECTOR, K a multiple of 4, with VECTOR_Y, N;
// with WHOLE, K a multiple of TILE_K and of 4; TILE_K at least 16 with GATED.
//# stored = ["float32", "float16", "bfloat16"]
//# made_of = { push = "Product", constants = "Tile" }
//#
//# [builds]
//# gated-linear = { define = "GATED" }  # two products of one x
//# # x is normalised on its way into shared memory, by moments that layer-norm-moments writes; in 16 bits the norm is
//# # folded into the product, by moments and by sums that layer-norm-columns writes.
//# layer-norm-linear = { define = "NORMED", stored = ["float32"] }
//# layer-norm-linear-folded = { define = "FOLDED", stored = ["float16", "bfloat16"] }
//# expert-linear = { define = "EXPERTS" }  # each row by the matrix of its expert
#include "product/linear-interface.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 4) const uint TILE_M = 128;
layout(constant_id = 5) const uint TILE_N = 128;
layout(constant_id = 6) const uint TILE_K = 16;
// Whether TILE_K divides K: then no bounds checks are needed, and indices are computed before the first step.
layout(constant_id = 8) const bool WHOLE = false;

// Results of one invocation: rows ty + 16 i, columns 64 j + 4 tx .. + 3 of the tile.
#include "product/product-tiles.glsl"
// Rows between the quads that an invocation loads.
const uint STEP = 256u / QUADS;

// Column 64 a + 4 b + c of the tile is in row 64 a + 16 c + b, so that neighbouring invocations read neighbouring rows.
uint column_of(uint row) {
    return row / 64u * 64u + row % 16u * 4u + row / 16u % 4u;
}

void main() {
    uint invocation = gl_LocalInvocationIndex;
    uint tx = invocation % 16u;
    uint ty = invocation / 16u;
    OWN_ROWS(TILE_M)
    uint first_column = gl_WorkGroupID.x * TILE_N;

    begin_sums();
    uint load_row = invocation / QUADS;
    uint load_quad = invocation % QUADS;
    // Start indices of their quads; rows past the last repeat it, and their results are not written.
    uint x_at[A_LOADS];
    uint weight_at[B_LOADS];
    [[unroll]] for (uint i = 0u; i < A_LOADS; i++) {
        x_at[i] = X_ROW(min(first_row + load_row + i * STEP, rows - 1u)) * (push.k / 4u) + load_quad;
    }
    [[unroll]] for (uint i = 0u; i < B_LOADS; i++) {
        uint row = weight_row(first_column + column_of(load_row + i * STEP));
        weight_at[i] = min(row, WEIGHT_ROWS - 1u) * (push.k / 4u) + load_quad;
    }
#ifdef NORMED
    vec2 centring[A_LOADS];
    [[unroll]] for (uint i = 0u; i < A_LOADS; i++) {
        centring[i] = centring_of(moments[min(first_row + load_row + i * STEP, rows - 1u)]);
    }
#endif
    for (uint start = 0u; start < push.k + TILE_K; start += TILE_K) {
        if (start > 0u) {
#if defined(NORMED) || defined(FOLDED)
            // The norm's weight and bias are loaded only now: kept during the multiplication, they would take registers
            // from it.
            uint loaded = start - TILE_K + 4u * load_quad;
            vec4 scale;
            if (WHOLE) {
                scale = norm_weight_4[loaded / 4u];
            } else {
                scale = load_norm_weight(0u, loaded, 1u);
            }
#endif
#ifdef NORMED
            vec4 shift;
            if (WHOLE) {
                shift = norm_bias_4[loaded / 4u];
            } else {
                shift = load_norm_bias(0u, loaded, 1u);
            }
            [[unroll]] for (uint i = 0u; i < A_LOADS; i++) {
                next_a[i] = normed(next_a[i], centring[i], scale, shift);
            }
#endif
#ifdef FOLDED
            [[unroll]] for (uint i = 0u; i < B_LOADS; i++) {
                next_b[i] *= scale;
            }
#endif
            barrier();
            [[unroll]] for (uint i = 0u; i < A_LOADS; i++) {
                a_tile[(load_row + i * STEP) * STRIDE + load_quad] = next_a[i];
            }
            [[unroll]] for (uint i = 0u; i < B_LOADS; i++) {
                b_tile[(load_row + i * STEP) * STRIDE + load_quad] = next_b[i];
            }
            barrier();
        }
        if (start < push.k) {
            uint k = start + 4u * load_quad;
            [[unroll]] for (uint i = 0u; i < A_LOADS; i++) {
                if (WHOLE) {
                    next_a[i] = wide(x_4[x_at[i] + start / 4u]);
                } else {
                    next_a[i] = load_x(X_ROW(first_row + load_row + i * STEP), k, X_ROWS);
                }
            }
            [[unroll]] for (uint i = 0u; i < B_LOADS; i++) {
                // Independent of the invocation: STEP divides 64.
                bool second = is_up(i * STEP);
                if (WHOLE) {
                    next_b[i] = weight_quad(second, weight_at[i] + start / 4u);
                } else {
                    uint row = weight_row(first_column + column_of(load_row + i * STEP));
                    next_b[i] = load_weight(second, row, k);
                }
            }
        }
        if (start > 0u) {
            multiply_tiles(tx, ty);
        }
    }

    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        uint row = first_row + ty + 16u * i;
        [[unroll]] for (uint j = 0u; j < COLUMNS; j += 4u) {
            uint n = first_column + 16u * j + 4u * tx;
            uint at = i * COLUMNS + j;
            if (row < rows && n < push.n) {
                finish(row, n, vec4(sum[at], sum[at + 1u], sum[at + 2u], sum[at + 3u]));
            }
        }
    }
}
