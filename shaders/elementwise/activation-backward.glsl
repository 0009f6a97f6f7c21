#version 460
// Computes: y = g act'(x), elementwise; g, x, y [rows, columns].
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: none.
// Assumes: elements < 2^32; rows_per_group * columns is a multiple of 4.
//# stored = ["float32", "float16", "bfloat16"]
#include "stored.glsl"
#include "elements.glsl"
#include "elementwise/functions.glsl"

layout(constant_id = 0) const uint ACTIVATION = 0;

INPUT(1, g, QUAD)
INPUT(2, x, QUAD)
OUTPUT(3, y, QUAD)

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
    float a;
    float b;
} push;

void four(uint quad) {
    y_4[quad] = narrow(wide(g_4[quad]) * slope_4(ACTIVATION, wide(x_4[quad]), push.a, push.b));
}

void one(uint place) {
    y[place] = g[place] * slope(ACTIVATION, x[place], push.a, push.b);
}

#include "elements-main.glsl"
