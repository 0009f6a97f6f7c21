#version 460
// Computes: y = x1 act(x2); y [..., width], x [..., 2 width] with halves x1 and x2 of the last axis.
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: none.
// Assumes: elements of x < 2^32; rows_per_group * columns is a multiple of 4, and width with VECTOR.
//# stored = ["float32", "float16", "bfloat16"]
//# numerics = ["run", "everywhere"]
#include "elementwise/gated-halves.glsl"

INPUT(1, x, QUAD)
OUTPUT(2, y, QUAD)

void four(uint quad) {
    vec4 first, gate;
#if STORED == FLOAT32
    if (!VECTOR) {
        uvec4 at = uvec4(4u * quad) + uvec4(0u, 1u, 2u, 3u);
        at += at / push.width * push.width;
        first = SETTLED(vec4(x[at.x], x[at.y], x[at.z], x[at.w]));
        at += push.width;
        gate = SETTLED(vec4(x[at.x], x[at.y], x[at.z], x[at.w]));
    } else
#endif
    {
        uint at = first_half(4u * quad);
        first = wide(x_4[at / 4u]);
        gate = wide(x_4[(at + push.width) / 4u]);
    }
    y_4[quad] = narrow(PRODUCT(first, SETTLED(value_4(ACTIVATION, gate, SETTLED(push.a), SETTLED(push.b)))));
}

void one(uint place) {
    uint at = first_half(place);
    y[place] = CANONICAL(PRODUCT(
        SETTLED(x[at]), SETTLED(value(ACTIVATION, SETTLED(x[at + push.width]), SETTLED(push.a), SETTLED(push.b)))));
}

#include "elements-main.glsl"
