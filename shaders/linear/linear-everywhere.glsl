#version 460
// Computes: y = act(x W^T + b) + residual with the same bits on every device; x [M, K], weight [N, K] as integers, exponents
// [N + K] of its rows and the balance of its columns, bias [*], residual, y [M, y_columns]: `src/quant/everywhere.rs`. With EXPERTS
// the weight has several matrices, with N + K exponents each, and places of the result theirs: expert-rows.glsl.
// Grid: x = ceil(N / 64), y = ceil(M / 64), of each expert's rows, continued along z; 16 x 16 invocations, each 4 x 4 results.
// Reduction order: none that matters, as sums of integers are exact; then bias, activation, residual.
// Assumes: K up to 278,528.
//# numerics = ["everywhere"]
//# made_of = { push = "Product" }
//#
//# [builds]
//# expert-linear-everywhere = { define = "EXPERTS" }  # a matrix per expert
#include "counts.glsl"
#include "elementwise/activate.glsl"
#include "everywhere/exact-tiles.glsl"

layout(constant_id = 0) const bool BIAS = false;
#ifndef EXPERTS
layout(constant_id = 1) const bool RESIDUAL = false;
#endif
layout(constant_id = 2) const uint ACTIVATION = 0;

layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) readonly buffer Weight { int weight[]; };
layout(std430, binding = 3) readonly buffer Exponents { int exponents[]; };
layout(std430, binding = 4) readonly buffer Bias { float bias[]; };
#ifdef EXPERTS
#define ORDER 5
#define RESULT 7
#else
layout(std430, binding = 5) readonly buffer Residual { float residual[]; };
#define RESULT 6
#endif
#include "product/expert-rows.glsl"
layout(std430, binding = RESULT) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
    uint rows_of;
    uint rows;
    // Bound rows of the weight, which produce columns column .. column + n of the result.
    uint n;
    uint k;
    uint column;
    uint y_columns;
#ifdef EXPERTS
    EXPERT_MEMBERS
#endif
} push;

// The tile's first row, its rows, its first column.
uint tile_row, tile_rows, first_column;

// The rows of a line in the result and in x; where the exponents of this workgroup's matrix begin.
#ifdef EXPERTS
shared uint places[TILE];
#define Y_LINE(LINE) places[LINE]
#define X_LINE(LINE) (places[LINE] / push.shared_by)
#define FIRST_EXPONENT ((push.first_expert + expert) * (push.y_columns + push.k))
#else
#define Y_LINE(LINE) (tile_row + LINE)
#define X_LINE(LINE) (tile_row + LINE)
#define FIRST_EXPONENT 0u
#endif

#define BALANCE_OF_X(K) exponents[FIRST_EXPONENT + push.y_columns + K]
#define NUMBER_OF_X(LINE, K) x[X_LINE(LINE) * push.k + K]
MEASURE_LINES(measure_x, NUMBER_OF_X, BALANCE_OF_X)

// The integer of a number of a measured line, with its column's balance.
int integer_of(float number, uint line, int balance) {
    int exponent = row_exponent(most[line], largest[line]);
    return exponent == NOT_FINITE ? 0 : scaled_integer(number, balance + 22 - exponent);
}

void load_step(uint start) {
    uint place = gl_LocalInvocationIndex % STEP;
    uint k = start + place;
    bool there = k < push.k;
    int balance = BALANCE_OF_X((there ? k : 0u));
    [[unroll]] for (uint i = 0u; i < TILE / 8u; i++) {
        uint line = gl_LocalInvocationIndex / STEP + 8u * i;
        int a = 0;
        if (there && line < tile_rows) {
            a = halves(integer_of(NUMBER_OF_X(line, k), line, balance));
        }
        a_tile[line * STRIDE + place] = a;
        int b = 0;
        if (there && first_column + line < push.n) {
            b = halves(weight[WEIGHT_ROW(first_column + line) * push.k + k]);
        }
        b_tile[line * STRIDE + place] = b;
    }
}

// The result of a finished sum.
float finished(uvec3 sum, int x_exponent, int weight_exponent, uint at, uint column) {
    if (x_exponent == NOT_FINITE || weight_exponent == NOT_FINITE) {
        return uintBitsToFloat(0x7fc00000u);
    }
    float found = assembled(sum, x_exponent + weight_exponent - 44);
    if (BIAS) {
        found = settled(found) + settled(bias[BIAS_AT(column)]);
    }
    if (ACTIVATION != ACTIVATION_IDENTITY) {
        found = activate(ACTIVATION, settled(found));
    }
#ifndef EXPERTS
    if (RESIDUAL) {
        found = settled(found) + settled(residual[at]);
    }
#endif
    return canonical(found);
}

void main() {
    OWN_ROWS(TILE)
    if (first_row >= rows) {
        return;
    }
    tile_row = first_row;
    tile_rows = min(rows - first_row, TILE);
    first_column = gl_WorkGroupID.x * TILE;
#ifdef EXPERTS
    if (gl_LocalInvocationIndex < tile_rows) {
        places[gl_LocalInvocationIndex] = place_of(first_row + gl_LocalInvocationIndex, batch_rows(push.rows_of, push.rows));
    }
#endif
    begin_measures();
    measure_x(0u, tile_rows, push.k);
    multiply_tiles(push.k);
    // A loop over results, so that the module has the activation once.
    for (uint i = 0u; i < 16u; i++) {
        uint line = ty() + i / 4u * 16u;
        uint n = first_column + tx() + i % 4u * 16u;
        if (line < tile_rows && n < push.n) {
            uint column = push.column + n;
            uint at = Y_LINE(line) * push.y_columns + column;
            int weight_exponent = exponents[FIRST_EXPONENT + column];
            y[at] = finished(sums[i], row_exponent(most[line], largest[line]), weight_exponent, at, column);
        }
    }
}
