#version 460
// Computes: y = act(x W^T + b) + residual with the same bits on every device; x [M, K], weight [N, K] as integers, exponents
// [N + K] of its rows and the balance of its columns, bias [*], residual, y [M, y_columns]: `src/quant/everywhere.rs`.
// Grid: x = ceil(N / 64), y = ceil(M / 64), continued along z; 16 x 16 invocations, each 4 x 4 results.
// Reduction order: none that matters, as sums of integers are exact; then bias, activation, residual.
// Assumes: K up to 131,072, so that 64 bits hold a sum. Loops are unrolled in part: lavapipe ends all loops of an invocation
// after 65,535 iterations together.
//# numerics = ["everywhere"]
//# made_of = { push = "Product" }
#extension GL_EXT_control_flow_attributes : require
#include "counts.glsl"
#include "elementwise/activate.glsl"
#include "everywhere/integers.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const bool BIAS = false;
layout(constant_id = 1) const bool RESIDUAL = false;
layout(constant_id = 2) const uint ACTIVATION = 0;

layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) readonly buffer Weight { int weight[]; };
layout(std430, binding = 3) readonly buffer Exponents { int exponents[]; };
layout(std430, binding = 4) readonly buffer Bias { float bias[]; };
layout(std430, binding = 5) readonly buffer Residual { float residual[]; };
layout(std430, binding = 6) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
    uint rows_of;
    uint rows;
    // Bound rows of the weight, which produce columns column .. column + n of the result.
    uint n;
    uint k;
    uint column;
    uint y_columns;
} push;

const uint TILE = 64u;
// Terms of a step; an odd stride keeps neighbouring rows in different banks.
const uint STEP = 32u;
const uint STRIDE = STEP + 1u;
// Terms that 32 bits hold.
const uint FLUSH = 256u;

// Halves of the integers of a step, row by row.
shared int a_tile[TILE * STRIDE];
shared int b_tile[TILE * STRIDE];
// Of rows of x: what decides the exponent, and the largest bits of a magnitude.
shared int most[TILE];
shared uint largest[TILE];

// Measures rows first .. first + 63 of x, 32 invocations a row.
void measure_rows(uint first, uint rows) {
    uint lane = gl_LocalInvocationIndex % 32u;
    if (gl_LocalInvocationIndex < TILE) {
        most[gl_LocalInvocationIndex] = NOTHING;
        largest[gl_LocalInvocationIndex] = 0u;
    }
    barrier();
    for (uint row = gl_LocalInvocationIndex / 32u; row < TILE; row += 8u) {
        if (first + row < rows) {
            int own_most = NOTHING;
            uint own_largest = 0u;
            for (uint quad = lane; quad < push.k; quad += 4u * 32u) {
                // Past the row's end its last number is repeated.
                [[unroll]] for (uint i = 0u; i < 4u; i++) {
                    uint k = min(quad + 32u * i, push.k - 1u);
                    float number = x[(first + row) * push.k + k];
                    own_most = max(own_most, measure(number, exponents[push.y_columns + k]));
                    own_largest = max(own_largest, floatBitsToUint(number) & 0x7fffffffu);
                }
            }
            atomicMax(most[row], own_most);
            atomicMax(largest[row], own_largest);
        }
    }
    barrier();
}

// Loads terms start .. start + 31 of the tile's rows and columns; zeros past the last.
void load_step(uint first_row, uint rows, uint first_column, uint start) {
    uint place = gl_LocalInvocationIndex % STEP;
    uint k = start + place;
    bool there = k < push.k;
    int balance = exponents[push.y_columns + (there ? k : 0u)];
    [[unroll]] for (uint i = 0u; i < TILE / 8u; i++) {
        uint row = gl_LocalInvocationIndex / STEP + 8u * i;
        int a = 0;
        if (there && first_row + row < rows) {
            int exponent = row_exponent(most[row], largest[row]);
            a = halves(exponent == NOT_FINITE ? 0 : scaled_integer(x[(first_row + row) * push.k + k], balance + 22 - exponent));
        }
        a_tile[row * STRIDE + place] = a;
        int b = 0;
        if (there && first_column + row < push.n) {
            b = halves(weight[(first_column + row) * push.k + k]);
        }
        b_tile[row * STRIDE + place] = b;
    }
}

// The result of a finished sum.
float finished(uvec2 sum, int x_exponent, uint at, uint column) {
    int weight_exponent = exponents[column];
    if (x_exponent == NOT_FINITE || weight_exponent == NOT_FINITE) {
        return uintBitsToFloat(0x7fc00000u);
    }
    float found = assembled(sum, x_exponent + weight_exponent - 44);
    if (BIAS) {
        found = settled(found) + settled(bias[column]);
    }
    if (ACTIVATION != ACTIVATION_IDENTITY) {
        found = activate(ACTIVATION, settled(found));
    }
    if (RESIDUAL) {
        found = settled(found) + settled(residual[at]);
    }
    return canonical(found);
}

void main() {
    uint rows = batch_rows(push.rows_of, push.rows);
    uint first_row = group_y() * TILE;
    uint first_column = gl_WorkGroupID.x * TILE;
    if (first_row >= rows) {
        return;
    }
    // Results of one invocation: rows ty + 16 i, columns tx + 16 j of the tile.
    uint tx = gl_LocalInvocationIndex % 16u;
    uint ty = gl_LocalInvocationIndex / 16u;
    measure_rows(first_row, rows);

    uvec2 sums[16];
    [[unroll]] for (uint i = 0u; i < 16u; i++) {
        sums[i] = uvec2(0u);
    }
    for (uint chunk = 0u; chunk < push.k; chunk += FLUSH) {
        ivec3 parts[16];
        [[unroll]] for (uint i = 0u; i < 16u; i++) {
            parts[i] = ivec3(0);
        }
        for (uint start = chunk; start < min(chunk + FLUSH, push.k); start += STEP) {
            barrier();
            load_step(first_row, rows, first_column, start);
            barrier();
            for (uint four = 0u; four < STEP; four += 4u) {
                [[unroll]] for (uint step = 0u; step < 4u; step++) {
                    uint k = four + step;
                    int a[4];
                    [[unroll]] for (uint i = 0u; i < 4u; i++) {
                        a[i] = a_tile[(ty + 16u * i) * STRIDE + k];
                    }
                    [[unroll]] for (uint j = 0u; j < 4u; j++) {
                        int b = b_tile[(tx + 16u * j) * STRIDE + k];
                        [[unroll]] for (uint i = 0u; i < 4u; i++) {
                            add_product(a[i], b, parts[4u * i + j]);
                        }
                    }
                }
            }
        }
        [[unroll]] for (uint i = 0u; i < 16u; i++) {
            add_sums(sums[i], parts[i]);
        }
    }

    // A loop over results, so that the module has the activation once.
    for (uint i = 0u; i < 16u; i++) {
        uint row = ty + i / 4u * 16u;
        uint n = first_column + tx + i % 4u * 16u;
        if (first_row + row < rows && n < push.n) {
            uint column = push.column + n;
            uint at = (first_row + row) * push.y_columns + column;
            y[at] = finished(sums[i], row_exponent(most[row], largest[row]), at, column);
        }
    }
}
