#version 460
// Computes: y[t] = sum over r of weight[t, r] x[t, r] + bias; x [rows, each, columns], weight [rows, each], y [rows,
// columns].
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: r in order, one fma per step from zero, with EVERYWHERE a product and a sum, then the bias.
// Assumes: elements of x < 2^32; rows_per_group * columns is a multiple of 4, and width with VECTOR.
//# stored = ["float32", "float16", "bfloat16"]
//# numerics = ["run", "everywhere"]
#include "stored.glsl"
#include "elements.glsl"

// Whether width is a multiple of four.
ALIGNED_ROWS(VECTOR, 0);
layout(constant_id = 1) const bool BIAS = false;

INPUT(1, x, QUAD)
layout(std430, binding = 2) readonly buffer Weight { float weight[]; };
INPUT(3, bias, vec4)
OUTPUT(4, y, QUAD)

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
    uint width;
    uint each;
} push;

float sum_of(uint place) {
    uint row = place / push.width;
    uint column = place % push.width;
    float sum = 0.0;
    for (uint at = row * push.each; at < (row + 1u) * push.each; at++) {
        sum = SETTLED_FMA(SETTLED(weight[at]), SETTLED(x[at * push.width + column]), sum);
    }
    return BIAS ? sum + SETTLED(bias[column]) : sum;
}

void four(uint quad) {
#if STORED == FLOAT32
    if (!VECTOR) {
        uint place = 4u * quad;
        y_4[quad] = CANONICAL(vec4(sum_of(place), sum_of(place + 1u), sum_of(place + 2u), sum_of(place + 3u)));
        return;
    }
#endif
    uint quads = push.width / 4u;
    uint row = quad / quads;
    vec4 sum = vec4(0.0);
    for (uint at = row * push.each; at < (row + 1u) * push.each; at++) {
        sum = SETTLED_FMA(vec4(SETTLED(weight[at])), wide(x_4[at * quads + quad % quads]), sum);
    }
    y_4[quad] = narrow(BIAS ? sum + SETTLED(bias_4[quad % quads]) : sum);
}

void one(uint place) {
    y[place] = CANONICAL(sum_of(place));
}

#include "elements-main.glsl"
