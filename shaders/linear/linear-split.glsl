#version 460
// Computes: as linear.glsl in float32, on matrix cores: each operand times a power of two is a float16 number and the rest,
// times 2^11, another (Ootomo and Yokota 2022). Rows of x or of the weight with NaN, infinity or numbers from 2^81 on, or
// none from 2^-112 on, have plain sums in their results.
// Grid: y = ceil(rows / (8 * TILE_M)), x = 8 * ceil(n / TILE_N), z as linear-matrix.glsl. SUBGROUPS subgroups, each with a
// part of the tile.
// Reduction order: along k in blocks of 32, for any tile, added by float32; within a block, the order of the device's
// matrix cores, products of high and low parts first. Plain sums as in linear.glsl.
// Assumes: as linear.glsl; 16 x 16 x 16 matrices, full subgroups of 256 / SUBGROUPS invocations; with GATED, TILE_N = 128.
//# # float32 on matrix cores; where there are none, or for short sums, `linear` runs.
//# made_of = { push = "Product", constants = "Tile" }
//# variants = [{ matrices = "f16_f32", needs = ["float16", "subgroup_shuffle", "subgroup_vote"], when = ["n >= 32", "k >= 32", "subgroup_size <= 64"] }]
//#
//# [builds]
//# gated-linear-split = { define = "GATED" }
//# layer-norm-linear-split = { define = "NORMED" }
//# expert-linear-split = { define = "EXPERTS" }
#include "matrix/cooperative-matrix.glsl"
#include "product/linear-interface.glsl"

layout(constant_id = 4) const uint TILE_M = 64;
layout(constant_id = 5) const uint TILE_N = 64;
// Whether 32 divides K: then no bounds checks are needed.
layout(constant_id = 8) const bool WHOLE = false;
layout(constant_id = 9) const uint SUBGROUPS = 8;
#include "matrix/split-tiles.glsl"

#define OUT_N TILE_N
uint first_row, first_column, rows;
// Rows of this invocation's loads; past the last, they repeat it, and their results are not written.
uint x_rows[X_LOADS];
uint w_rows[W_LOADS];
#ifdef NORMED
vec2 centring[X_LOADS];
#endif

void fetch(uint block) {
    uint k = block * TILE_K + me % EIGHTS * 8u;
    [[unroll]] for (uint i = 0u; i < X_LOADS; i++) {
        [[unroll]] for (uint h = 0u; h < 2u; h++) {
            if (WHOLE) {
                x_next[i][h] = x_4[x_rows[i] * (push.k / 4u) + k / 4u + h];
            } else {
                x_next[i][h] = load_x(x_rows[i], k + 4u * h, X_ROWS);
            }
        }
    }
    [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
        // Independent of the invocation: a load has 64 rows.
        bool second = is_up(i * STEP);
        [[unroll]] for (uint h = 0u; h < 2u; h++) {
            if (WHOLE) {
                w_next[i][h] = weight_quad(second, w_rows[i] * (push.k / 4u) + k / 4u + h);
            } else {
                w_next[i][h] = load_weight(second, w_rows[i], k + 4u * h);
            }
        }
    }
}

void prepare_x(uint block) {
#ifdef NORMED
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
        uint k = block * TILE_K + me % EIGHTS * 8u + 4u * h;
        vec4 gain = load_norm_weight(0u, k, 1u);
        vec4 shift = load_norm_bias(0u, k, 1u);
        [[unroll]] for (uint i = 0u; i < X_LOADS; i++) {
            x_next[i][h] = normed(x_next[i][h], centring[i], gain, shift);
        }
    }
#endif
}

float plain(uint row, uint column) {
    row += first_row;
    column += first_column;
    float result = 0.0;
    for (uint k = 0u; k < push.k; k += 4u) {
        vec4 a = load_x(X_ROW(row), k, X_ROWS);
#ifdef NORMED
        a = normed(a, centring_of(moments[row]), load_norm_weight(0u, k, 1u), load_norm_bias(0u, k, 1u));
#endif
        result = accumulate(a, load_weight(is_up(column), weight_row(column), k), result);
    }
    return result;
}

void main() {
    begin();
#include "matrix/tile-groups.glsl"
    [[unroll]] for (uint i = 0u; i < X_LOADS; i++) {
        uint row = min(first_row + me / EIGHTS + i * STEP, rows - 1u);
        x_rows[i] = X_ROW(row);
#ifdef NORMED
        centring[i] = centring_of(moments[row]);
#endif
    }
    [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
        w_rows[i] = min(weight_row(first_column + me / EIGHTS + i * STEP), WEIGHT_ROWS - 1u);
    }
    multiply((push.k + TILE_K - 1u) / TILE_K);
#ifdef GATED
    // Gates before the values that they gate, 64 columns apart.
    const uint ACROSS = 2u;
#else
    const uint ACROSS = 1u;
#endif
    [[unroll]] for (uint part = 0u; part < 2u; part++) {
        put(part);
        for (uint i = me; i < OUT_ROWS * OUT_QUADS / ACROSS; i += 256u) {
            uint row = part * OUT_ROWS + i / (OUT_QUADS / ACROSS);
            [[unroll]] for (uint a = 0u; a < ACROSS; a++) {
                uint quad = i % (OUT_QUADS / ACROSS) + 16u * a;
                if (first_row + row < rows && first_column + 4u * quad < push.n) {
                    finish(first_row + row, first_column + 4u * quad, taken(part, row, quad));
                }
            }
        }
    }
}
