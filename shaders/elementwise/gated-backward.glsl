#version 460
// Computes: y = [g act(x2), g x1 act'(x2)]; g [..., width], x, y [..., 2 width] with halves of the last axis.
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: none.
// Assumes: elements of x < 2^32; rows_per_group * columns is a multiple of 4, and width with VECTOR.
#include "gated-halves.glsl"

INPUT(1, g, vec4)
INPUT(2, x, vec4)
OUTPUT(3, y, vec4)

void four(uint quad) {
    uint at = first_half(4u * quad);
    uint second = (at + push.width) / 4u;
    vec4 gate = x_4[second];
    vec4 gradient = g_4[quad];
    vec4 other = gradient * x_4[at / 4u];
    y_4[at / 4u] = gradient * value_4(ACTIVATION, gate, push.a, push.b);
    y_4[second] = other * slope_4(ACTIVATION, gate, push.a, push.b);
}

void one(uint place) {
    uint at = first_half(place);
    float gate = x[at + push.width];
    y[at] = g[place] * value(ACTIVATION, gate, push.a, push.b);
    y[at + push.width] = g[place] * x[at] * slope(ACTIVATION, gate, push.a, push.b);
}

void main() {
    uvec2 own = own_elements(push.rows_of, push.rows, push.columns, push.rows_per_group);
    if (VECTOR) {
        walk(own);
    } else {
        // Writing four elements of a row at unaligned positions would access every memory segment four times.
        for (uint place = own.x + gl_LocalInvocationIndex; place < own.y; place += 256u) {
            one(place);
        }
    }
}
