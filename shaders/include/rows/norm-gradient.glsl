// Shared by the gradients of the norms: their interface, g, x, y [rows, columns], weight [columns], and a row's x and
// h = g weight, if HELD.
#include "counts.glsl"
#include "rows/held-rows.glsl"

INPUT_ROWS(1, g, QUAD)
INPUT_ROWS(2, x, QUAD)
INPUT_ROWS(3, weight, vec4)
OUTPUT_ROWS(4, y, QUAD)

layout(push_constant) uniform Push {
    ROW_MEMBERS
    float eps;
} push;

vec4 held_x[QUADS];
vec4 held_h[QUADS];

// Reads x and h of group i, 0 past the end of the row, and keeps them if HELD.
void load(uint start, uint i, uint columns, out vec4 h, out vec4 quad) {
    quad = within(load_x(start, i, columns), i, columns, 0.0);
    h = within(load_g(start, i, columns) * load_weight(0u, i, columns), i, columns, 0.0);
    if (HELD) {
        held_x[i] = quad;
        held_h[i] = h;
    }
}

// The same again, of any value past the end.
void reload(uint start, uint i, uint columns, out vec4 h, out vec4 quad) {
    if (HELD) {
        quad = held_x[i];
        h = held_h[i];
    } else {
        quad = load_x(start, i, columns);
        h = load_g(start, i, columns) * load_weight(0u, i, columns);
    }
}
