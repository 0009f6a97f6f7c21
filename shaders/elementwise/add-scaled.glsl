#version 460
// Computes: total = total + factor x, elementwise, in place.
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: none.
// Assumes: elements < 2^32; rows_per_group * columns is a multiple of 4.
#include "elements.glsl"

layout(std430, binding = 1) buffer Total { float total[]; };
layout(std430, binding = 2) readonly buffer X { float x[]; };
layout(std430, binding = 3) readonly buffer Factor { float factor[]; };

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
} push;

void one(uint place) {
    precise float change = factor[0] * x[place];
    total[place] += change;
}

#define SINGLY
#include "elements-main.glsl"
