#version 460
// Computes: as matmul.glsl, on matrix cores, each number split in two (linear-split.glsl).
// Grid: x = ceil(N / TILE_N), y = ceil(M / TILE_M), z as matmul.glsl; SUBGROUPS subgroups, each with a part of the tile.
// Reduction order: as linear-split.glsl.
// Assumes: as linear-split.glsl; fewer than 2^32 elements.
//# # float32 on matrix cores; where there are none, or for short sums, `matmul` runs.
//# made_of = { constants = "Tile" }
//# variants = [{ matrices = "f16_f32", needs = ["float16", "subgroup_shuffle", "subgroup_vote"], when = ["n >= 32", "k >= 32", "subgroup_size <= 64"] }]
#include "matrix/cooperative-matrix.glsl"
#include "product/matmul-interface.glsl"
#include "numbers.glsl"

layout(constant_id = 0) const uint TILE_M = 64;
layout(constant_id = 1) const uint TILE_N = 64;
// Whether 32 divides K: then no bounds checks are needed.
layout(constant_id = 2) const bool WHOLE = false;
layout(constant_id = 5) const uint SUBGROUPS = 8;
#include "matrix/split-tiles.glsl"

// Rows of this invocation's loads; past the last, they repeat it, and their results are not written.
uint a_rows[X_LOADS];
uint b_rows[W_LOADS];

// Four terms from element `at`, which exist.
#define FOUR(NAME, MODE, at, TERM)                                                                                     \
    (MODE == 1u ? NAME##_4[(at) / 4u] : vec4(NAME[at], NAME[(at) + TERM], NAME[(at) + 2u * TERM], NAME[(at) + 3u * TERM]))

void fetch(uint block) {
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
        uint k = block * TILE_K + me % EIGHTS * 8u + 4u * h;
        [[unroll]] for (uint i = 0u; i < X_LOADS; i++) {
            if (WHOLE) {
                x_next[i][h] = FOUR(a, A_LOAD, a_base + a_rows[i] * push.a_row + k * push.a_k, push.a_k);
            } else {
                x_next[i][h] = load_a(a_base, a_rows[i], k, push.m);
            }
        }
        [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
            if (WHOLE) {
                w_next[i][h] = FOUR(b, B_LOAD, b_base + b_rows[i] * push.b_column + k * push.b_k, push.b_k);
            } else {
                w_next[i][h] = load_b(b_base, b_rows[i], k, push.n);
            }
        }
    }
}

void prepare_x(uint block) {}

float plain(uint row, uint column) {
    float result = 0.0;
    for (uint k = 0u; k < push.k; k += 4u) {
        vec4 terms = load_a(a_base, first_row + row, k, push.m);
        result = accumulate(terms, load_b(b_base, first_column + column, k, push.n), result);
    }
    return result;
}

void product() {
    multiply((push.k + TILE_K - 1u) / TILE_K);
    [[unroll]] for (uint part = 0u; part < 2u; part++) {
        put(part);
        for (uint i = me; i < OUT_ROWS * OUT_QUADS; i += 256u) {
            uint row = part * OUT_ROWS + i / OUT_QUADS;
            uint column = first_column + i % OUT_QUADS * 4u;
            if (first_row + row < push.m && column < push.n) {
                vec4 quad = push.scale * taken(part, row, i % OUT_QUADS);
                uint at = y_base + (first_row + row) * push.y_row + column;
                STORE_QUAD(y, push.n % 4u == 0u, column, push.n)
            }
        }
    }
}

void main() {
    begin();
    for (uint turn = gl_WorkGroupID.z; turn < all_turns(TILE_M, TILE_N); turn += gl_NumWorkGroups.z) {
        set_turn(turn, TILE_M, TILE_N);
        [[unroll]] for (uint i = 0u; i < X_LOADS; i++) {
            a_rows[i] = min(first_row + me / EIGHTS + i * STEP, push.m - 1u);
        }
        [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
            b_rows[i] = min(first_column + me / EIGHTS + i * STEP, push.n - 1u);
        }
        product();
        // The next product's tiles take the place of these results.
        barrier();
    }
}
