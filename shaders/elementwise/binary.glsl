#version 460
// Computes: y = a + b, a - b, a b or a / b, elementwise; a, y [rows, columns], b repeated along some axes.
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: none.
// Assumes: elements < 2^32; rows_per_group * columns is a multiple of 4; in 16 bits, b has a's last axis.
//# stored = ["float32", "float16", "bfloat16"]
//# numerics = ["run", "everywhere"]
#include "stored.glsl"
#include "elements.glsl"
#include "kinds.glsl"

layout(constant_id = 0) const uint KIND = 0;
// Number of axes along which b is indexed, 0 where it has a's shape; axis 0 is the fastest.
layout(constant_id = 1) const uint AXES = 0;
// Whether a group of four elements never crosses the end of the fastest axis.
ALIGNED_ROWS(VECTOR, 2);

INPUT(1, a, QUAD)
INPUT(2, b, QUAD)
OUTPUT(3, y, QUAD)

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
    uint size_0;
    uint size_1;
    uint size_2;
    // Stride of b between two indices of an axis: 0 where b is broadcast.
    uint stride_0;
    uint stride_1;
    uint stride_2;
    uint stride_3;
} push;

// The index in b that corresponds to an element of a. The size of the slowest axis is not needed.
uint place_in_b(uint place) {
    if (AXES == 0u) {
        return place;
    }
    if (AXES == 1u) {
        return place * push.stride_0;
    }
    uint rest = place / push.size_0;
    uint at = (place - rest * push.size_0) * push.stride_0;
    if (AXES == 2u) {
        return at + rest * push.stride_1;
    }
    uint next = rest / push.size_1;
    at += (rest - next * push.size_1) * push.stride_1;
    if (AXES == 3u) {
        return at + next * push.stride_2;
    }
    uint last = next / push.size_2;
    return at + (next - last * push.size_2) * push.stride_2 + last * push.stride_3;
}

vec4 combine(vec4 a, vec4 b) {
    switch (KIND) {
        case BINARY_ADD: return a + b;
        case BINARY_SUBTRACT: return a - b;
        case BINARY_MULTIPLY: return PRODUCT(a, b);
        default: return QUOTIENT(a, b);
    }
}

// The elements of b for elements 4 quad .. 4 quad + 3 of a. A 16-bit b has a's last axis, so that they are adjacent in
// it.
vec4 second(uint quad) {
    if (AXES == 0u) {
        return wide(b_4[quad]);
    }
    uint at = 4u * quad;
#if STORED == FLOAT32
    if (!VECTOR) {
        return SETTLED(vec4(b[place_in_b(at)], b[place_in_b(at + 1u)], b[place_in_b(at + 2u)], b[place_in_b(at + 3u)]));
    }
    if (push.stride_0 == 0u) {
        return SETTLED(vec4(b[place_in_b(at)]));
    }
#endif
    return wide(b_4[place_in_b(at) / 4u]);
}

void four(uint quad) {
    y_4[quad] = narrow(combine(wide(a_4[quad]), second(quad)));
}

void one(uint place) {
    y[place] = CANONICAL(combine(SETTLED(vec4(a[place])), SETTLED(vec4(b[place_in_b(place)]))).x);
}

#include "elements-main.glsl"
