#version 460
// Computes: y = act(s / scale[m] + bias[n]) + residual in place, s = y / weight_scale[n] of integers y, with GROUPS y as
// floats; y [rows, width]. After `integer-linear` or `quantized-linear`.
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: none.
// Assumes: elements < 2^32; rows_per_group * columns is a multiple of 4.
#include "elements.glsl"
#include "activate.glsl"

layout(constant_id = 0) const bool GROUPS = false;
layout(constant_id = 1) const uint ACTIVATION = 0;
layout(constant_id = 2) const bool BIAS = false;
layout(constant_id = 3) const bool RESIDUAL = false;

layout(std430, binding = 1) readonly buffer Scale { float scale[]; };
layout(std430, binding = 2) readonly buffer WeightScale { float weight_scale[]; };
layout(std430, binding = 3) readonly buffer Bias { float bias[]; };
layout(std430, binding = 4) readonly buffer Residual { float residual[]; };
layout(std430, binding = 5) buffer Y { uint y[]; };

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
    uint width;
    // Scales of a row of the weight: 1, or 0 if rows share one.
    uint per_row;
} push;

void one(uint place) {
    uint column = place % push.width;
    float sum = GROUPS ? uintBitsToFloat(y[place]) : float(int(y[place])) / weight_scale[column * push.per_row];
    float found = activate(ACTIVATION, sum / scale[place / push.width] + (BIAS ? bias[column] : 0.0));
    y[place] = floatBitsToUint(found + (RESIDUAL ? residual[place] : 0.0));
}

#define SINGLY
#include "elements-main.glsl"
