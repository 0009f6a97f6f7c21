// Shared by the gradients of the norms: their interface, g, x, y [rows, columns], weight [columns], and a row's x and
// h = g weight, if HELD.
#include "counts.glsl"
#include "held-rows.glsl"

INPUT_ROWS(1, g, vec4)
INPUT_ROWS(2, x, vec4)
INPUT_ROWS(3, weight, vec4)
OUTPUT_ROWS(4, y, vec4)

layout(push_constant) uniform Push {
    ROW_MEMBERS
    float eps;
} push;

vec4 held_x[QUADS];
vec4 held_h[QUADS];
