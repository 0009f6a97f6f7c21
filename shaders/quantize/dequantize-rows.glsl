#version 460
// Computes: y[m, n] = x[m, n] / (scale[m] weight_scale[n]); x, y [rows, width].
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: none.
// Assumes: elements < 2^32; rows_per_group * columns is a multiple of 4.
#include "elements.glsl"

layout(std430, binding = 1) readonly buffer X { int x[]; };
layout(std430, binding = 2) readonly buffer Scale { float scale[]; };
layout(std430, binding = 3) readonly buffer WeightScale { float weight_scale[]; };
layout(std430, binding = 4) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
    uint width;
} push;

void one(uint place) {
    precise float divisor = scale[place / push.width] * weight_scale[place % push.width];
    y[place] = float(x[place]) / divisor;
}

#define SINGLY
#include "elements-main.glsl"
