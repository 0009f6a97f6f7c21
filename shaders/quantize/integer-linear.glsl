#version 460
// Computes: y[m, n] = sum_k q[m, k] weight[n, k]; with SCALED as floats y = act(s (1 / scale[m]) + bias[n]) + residual[m, n],
// s = sum_g (sum_{k in g} (q[m, k] - zero[m]) weight[n, k]) (1 / weight_scale[n, g]); q [rows, depth] int8, weight
// [n, row_bytes] bytes of integers, the rest as quantized-interface.glsl.
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: of integers irrelevant, as their sums are exact; groups from the first to the last.
// Assumes: elements < 2^32, depth < 2^17, with PAIRS 2^16; rows_per_group * columns a multiple of 4; with WHOLE, depth and
// group are multiples of 4.
//# made_of = { push = "Product", constants = "Tile" }
//# numerics = ["run", "everywhere"]
//# variants = [{ name = "dot", only = ["float32"], needs = ["integer_dot_product"], defines = { DOT = "1" } }, {}]
//#
//# [builds]
//# quantized-linear = { define = "SCALED", stored = ["float32", "float16", "bfloat16"] }
#ifdef DOT
#include "product/dot.glsl"
#endif
#include "elements.glsl"
#include "levels.glsl"

layout(constant_id = 0) const bool WHOLE = false;
layout(std430, binding = 1) readonly buffer Q { uint q[]; };
#ifdef SCALED
#include "product/quantized-interface.glsl"
layout(std430, binding = 3) readonly buffer Weight { uint weight[]; };
INPUT(6, residual, QUAD)
OUTPUT(7, y, QUAD)
#else
layout(constant_id = 5) const uint LEVELS = INT8;
const bool PAIRS = false;
layout(std430, binding = 2) readonly buffer Weight { uint weight[]; };
layout(std430, binding = 3) writeonly buffer Y { int y[]; };
#endif

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
    // Columns of y, terms of a sum, and bytes of a row of the weight.
    uint n;
    uint depth;
    uint row_bytes;
#ifdef SCALED
    // Columns of a group, and scales of a row of the weight, 0 if rows share one.
    uint group;
    uint per_row;
#endif
} push;

int dot_of_four(uint a, uint b) {
#ifdef DOT
    return signed_dot(a, b, 0u);
#else
    int sum = 0;
    for (uint i = 0u; i < 4u; i++) {
        sum += integer_at(a, i) * integer_at(b, i);
    }
    return sum;
#endif
}

// Integers 4 quad .. 4 quad + 3 of a row of the weight, one per byte.
uint four_of_weight(uint row, uint quad) {
    if (LEVELS == INT8) {
        return weight[row * (push.depth / 4u) + quad];
    }
    uint place = row * push.row_bytes + (LEVELS == TERNARY ? quad : quad / 2u);
    uint codes = byte_of(weight[place / 4u], place);
    return bytes_of_four(LEVELS, LEVELS == TERNARY ? codes : bitfieldExtract(codes, int(4u * (quad % 2u)), 4));
}

int weight_at(uint row, uint k) {
    uint place = row * push.row_bytes + k / per_byte(LEVELS);
    uint word = weight[place / 4u];
    return LEVELS == INT8 ? integer_at(word, place) : level_in(LEVELS, byte_of(word, place), k);
}

// The sum of products over columns first .. end - 1 of q, less `zero` each.
int product(uint row, uint column, uint first, uint end, int zero) {
    uint start = row * push.depth;
    int sum = 0;
    // The sum of the weights.
    int ones = 0;
    if (WHOLE) {
        for (uint quad = first / 4u; quad < end / 4u; quad++) {
            uint four = four_of_weight(column, quad);
            sum += dot_of_four(q[start / 4u + quad], four);
            ones += PAIRS ? dot_of_four(0x01010101u, four) : 0;
        }
    } else {
        for (uint k = first; k < end; k++) {
            int factor = weight_at(column, k);
            sum += integer_at(q[(start + k) / 4u], start + k) * factor;
            ones += PAIRS ? factor : 0;
        }
    }
    return sum - zero * ones;
}

#ifdef SCALED
// Without the residual.
float result(uint place) {
    uint row = place / push.n, column = place % push.n;
    int zero = zero_of(row);
    float sum = 0.0;
    uint group = column * push.per_row;
    for (uint start = 0u; start < push.depth; start += push.group) {
        int part = product(row, column, start, min(start + push.group, push.depth), zero);
        precise float scaled = PRODUCT(float(part), reciprocal(weight_scale[group]));
        sum = start == 0u ? scaled : sum + scaled;
        group++;
    }
    return finished(sum, row_factor_of(row), bias_of(column));
}

#if STORED == FLOAT32
void one(uint place) {
    float found = result(place);
    y[place] = CANONICAL(RESIDUAL ? found + SETTLED(residual[place]) : found);
}

#define SINGLY
#else
void four(uint quad) {
    vec4 found;
    for (uint i = 0u; i < 4u; i++) {
        found[i] = result(4u * quad + i);
    }
    y_4[quad] = narrow(RESIDUAL ? found + wide(residual_4[quad]) : found);
}

// Rows are whole quads.
void one(uint place) {
}
#endif
#else
void one(uint place) {
    y[place] = product(place / push.n, place % push.n, 0u, push.depth, 0);
}

#define SINGLY
#endif
#include "elements-main.glsl"
