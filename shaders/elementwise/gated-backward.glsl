#version 460
// Computes: y = [g act(x2), g x1 act'(x2)]; g [..., width], x, y [..., 2 width] with halves of the last axis.
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: none.
// Assumes: elements of x < 2^32; rows_per_group * columns is a multiple of 4, and width with VECTOR.
#include "elementwise/gated-halves.glsl"

INPUT(1, g, vec4)
INPUT(2, x, vec4)
OUTPUT(3, y, vec4)

// Elements of one step: writing four of a row at unaligned positions would access every memory segment four times.
const uint STEP = VECTOR ? 4u : 1u;

void main() {
    uvec2 own = own_elements(push.rows_of, push.rows, push.columns, push.rows_per_group);
    for (uint place = own.x + STEP * gl_LocalInvocationIndex; place < own.y; place += STEP * 256u) {
        uint at = first_half(place);
        uint second = at + push.width;
        vec4 gate = VECTOR ? x_4[second / 4u] : vec4(x[second]);
        vec4 gradient = VECTOR ? g_4[place / 4u] : vec4(g[place]);
        vec4 other = gradient * (VECTOR ? x_4[at / 4u] : vec4(x[at]));
        for (uint i = 0u; i < STEP; i++) {
            gradient[i] *= value(ACTIVATION, gate[i], push.a, push.b);
            other[i] *= slope(ACTIVATION, gate[i], push.a, push.b);
        }
        if (VECTOR) {
            y_4[at / 4u] = gradient;
            y_4[second / 4u] = other;
        } else {
            y[at] = gradient.x;
            y[second] = other.x;
        }
    }
}
