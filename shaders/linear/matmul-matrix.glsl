#version 460
// Computes: as matmul.glsl on matrix cores: a and b float16 or bfloat16, sums float32, y like a and b, rounded once, or float32.
// Grid: x = ceil(N / TILE_N), y = ceil(M / TILE_M), z as matmul.glsl; SUBGROUPS subgroups, each with a part of the tile.
// Reduction order: along k in steps of 16, for any tile; within a step, the order of the device's matrix cores.
// Assumes: neighbours along terms or rows start at multiples of a unit; 16 x 16 x 16 matrices, full subgroups of 256 /
// SUBGROUPS invocations.
//# # Where there are no matrix cores of the type, plans run in float32.
//# stored = ["float16", "bfloat16"]
//# made_of = { constants = "Tile" }
//# variants = [
//#     { only = ["float16"], matrices = "f16_f32", needs = ["float16", "storage16"] },
//#     { only = ["bfloat16"], matrices = "bf16_f32", needs = ["float16", "storage16"] },
//# ]
#include "stored.glsl"
#include "matrix/cooperative-matrix.glsl"
#include "product/matmul-push.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint TILE_M = 64;
layout(constant_id = 1) const uint TILE_N = 64;
layout(constant_id = 2) const uint TILE_K = 32;
layout(constant_id = 5) const uint SUBGROUPS = 8;
// Whether TILE_K divides K: then no bounds checks are needed.
layout(constant_id = 6) const bool WHOLE = false;
// Whether y is float32.
layout(constant_id = 7) const bool WIDE = false;
// Units of both operands and of y, of which float32 has 4 or 1: units.glsl.
layout(constant_id = 8) const uint A_UNIT = 8;
layout(constant_id = 9) const uint B_UNIT = 8;
layout(constant_id = 10) const uint Y_UNIT = 4;
#include "matrix/subgroup-tiles.glsl"
#include "matrix/units.glsl"

UNITS(0, readonly, a)
UNIT_OF(a, A_UNIT)
EIGHTS_OF(a, A_UNIT, false)
UNITS(1, readonly, b)
UNIT_OF(b, B_UNIT)
EIGHTS_OF(b, B_UNIT, false)
UNITS(2, writeonly, y)
PUTS(y, Y_UNIT)
layout(std430, binding = 2) writeonly buffer YWideQuads { vec4 y_wide_4[]; };
layout(std430, binding = 2) writeonly buffer YWide { float y_wide[]; };

// Whether a line of a tile in shared memory is a term of all rows, or a row's terms; its eights, and with one more, so that
// lines start at different banks.
const bool A_ACROSS = A_LOAD == 2u;
const bool B_ACROSS = B_LOAD == 2u;
const uint A_LINE = (A_ACROSS ? TILE_M : TILE_K) / 8u;
const uint B_LINE = (B_ACROSS ? TILE_N : TILE_K) / 8u;
const uint A_STRIDE = A_LINE + 1u;
const uint B_STRIDE = B_LINE + 1u;
const uint B_TILE = (A_ACROSS ? TILE_K : TILE_M) * A_STRIDE;
const uint OPERANDS = B_TILE + (B_ACROSS ? TILE_K : TILE_N) * B_STRIDE;
// Results of the subgroups that share rows pass through shared memory together.
const uint OUT_ROWS = HEIGHT;
const uint OUT_QUADS = TILE_N / 4u;
const uint OUT_STRIDE = OUT_QUADS + 1u;
const uint QUAD_UNITS = 4u / Y_UNIT;
const uint OUT_UNITS = OUT_QUADS * QUAD_UNITS;
const uint STAGED = OUT_ROWS * OUT_STRIDE;
// Eights that an invocation loads per step.
const uint A_LOADS = TILE_M * TILE_K / 2048u;
const uint B_LOADS = TILE_N * TILE_K / 2048u;

// Both operands; in the end, results.
shared uvec4 tile[OPERANDS > STAGED ? OPERANDS : STAGED];
#include "matrix/subgroup-results.glsl"

// The next step's.
uvec4 a_next[A_LOADS];
uvec4 b_next[B_LOADS];

// `fetch` loads a step; rows past the last repeat it or others, and their results are not written; terms past the last are 0.
#define TILE(NAME, LOADS, ACROSS, FIRST, ROWS, LINE_STEP, TERM_STEP, TILE_AT)                                          \
    void fetch_##NAME(uint step) {                                                                                     \
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {                                                                 \
            uint line = (me + 256u * i) / NAME##_EIGHTS;                                                               \
            uint eighth = (me + 256u * i) % NAME##_EIGHTS * 8u;                                                        \
            uint term = step * TILE_K + (ACROSS ? line : eighth);                                                      \
            bool there = WHOLE || term < push.k;                                                                       \
            if (NAME##_UNIT == 8u) {                                                                                   \
                uint row = ACROSS ? min(FIRST + eighth, ROWS - 8u) : min(FIRST + line, ROWS - 1u);                     \
                uint at = NAME##_base + row * LINE_STEP + (there ? term : 0u) * TERM_STEP;                             \
                NAME##_next[i] = mix(uvec4(0u), NAME[at / 8u], bvec4(there));                                          \
            } else {                                                                                                   \
                uint row = ACROSS ? FIRST + eighth : min(FIRST + line, ROWS - 1u);                                     \
                uint at = NAME##_base + row * LINE_STEP + term * TERM_STEP;                                            \
                uint end = ACROSS ? (there ? ROWS : 0u) : push.k;                                                      \
                NAME##_next[i] = eight_of_##NAME(at / NAME##_UNIT, ACROSS ? row : term, end);                          \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    void store_##NAME() {                                                                                              \
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {                                                                 \
            uint line = (me + 256u * i) / NAME##_EIGHTS;                                                               \
            tile[TILE_AT + line * (NAME##_EIGHTS + 1u) + (me + 256u * i) % NAME##_EIGHTS] = NAME##_next[i];            \
        }                                                                                                              \
    }
#define a_EIGHTS A_LINE
#define b_EIGHTS B_LINE
#define a_UNIT A_UNIT
#define b_UNIT B_UNIT
TILE(a, A_LOADS, A_ACROSS, first_row, push.m, push.a_row, push.a_k, 0u)
TILE(b, B_LOADS, B_ACROSS, first_column, push.n, push.b_column, push.b_k, B_TILE)

void fetch(uint step) {
    fetch_a(step);
    fetch_b(step);
}

void store(uint step) {
    store_a();
    store_b();
}

// The matrices of terms from eighth `at` on.
void load_left(out LEFT left, uint row, uint at) {
    if (A_ACROSS) {
        coopMatLoad(left, tile, 8u * at * A_STRIDE + row / 8u, A_STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
    } else {
        coopMatLoad(left, tile, row * A_STRIDE + at, A_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    }
}

void load_right(out RIGHT right, uint column, uint at) {
    if (B_ACROSS) {
        coopMatLoad(right, tile, B_TILE + 8u * at * B_STRIDE + column / 8u, B_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    } else {
        coopMatLoad(right, tile, B_TILE + column * B_STRIDE + at, B_STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
    }
}
#define LOAD_LEFT load_left
#define LOAD_RIGHT load_right

void multiply() {
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
            sum[i][j] = SUM(0.0);
        }
    }
    fetch(0u);
    store(0u);
    barrier();
    uint steps = (push.k + TILE_K - 1u) / TILE_K;
#include "matrix/matrix-steps.glsl"
}

void product() {
    multiply();
    [[unroll]] for (uint part = 0u; part < DOWN; part++) {
        put(part);
        for (uint i = me; i < OUT_ROWS * OUT_UNITS; i += 256u) {
            uint row = first_row + part * OUT_ROWS + i / OUT_UNITS;
            uint own = i % OUT_UNITS;
            uint column = first_column + own * Y_UNIT;
            if (row < push.m && column < push.n) {
                vec4 sums = push.scale * uintBitsToFloat(tile[i / OUT_UNITS * OUT_STRIDE + own / QUAD_UNITS]);
                uint first = own % QUAD_UNITS * Y_UNIT;
                uint at = (y_base + row * push.y_row + column) / Y_UNIT;
                if (WIDE && Y_UNIT == 4u) {
                    y_wide_4[at] = sums;
                } else if (WIDE) {
                    y_wide[at] = sums[first];
                } else {
                    put_quad(at, sums, first);
                }
            }
        }
    }
}

void main() {
    begin();
    for (uint turn = gl_WorkGroupID.z; turn < all_turns(TILE_M, TILE_N); turn += gl_NumWorkGroups.z) {
        set_turn(turn, TILE_M, TILE_N);
        product();
        // The next product's tiles take the place of these results.
        barrier();
    }
}
