#version 460
// Computes: y = g act'(x), elementwise; g, x, y [rows, columns].
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: none.
// Assumes: elements < 2^32; rows_per_group * columns is a multiple of 4.
#include "elements.glsl"
#include "functions.glsl"
#include "stored.glsl"

layout(constant_id = 0) const uint ACTIVATION = 0;

INPUT(1, g, vec4)
INPUT(2, x, vec4)
OUTPUT(3, y, vec4)

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
    float a;
    float b;
} push;

void four(uint quad) {
    y_4[quad] = g_4[quad] * slope_4(ACTIVATION, x_4[quad], push.a, push.b);
}

void one(uint place) {
    y[place] = g[place] * slope(ACTIVATION, x[place], push.a, push.b);
}

#include "elements-main.glsl"
