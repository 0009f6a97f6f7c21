#version 460
// Computes: y = act(x), elementwise; x, y [rows, columns]; with BIAS, act(x + bias), bias [width] along the last axis.
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: none.
// Assumes: elements < 2^32; rows_per_group * columns is a multiple of 4, and width with VECTOR.
//# stored = ["float32", "float16", "bfloat16"]
//# numerics = ["run", "everywhere"]
//#
//# [builds]
//# bias-gelu = { define = "BIAS", numerics = ["run"] }  # a fused operation
#include "stored.glsl"
#include "elements.glsl"
#include "elementwise/functions.glsl"

layout(constant_id = 0) const uint ACTIVATION = 0;

INPUT(1, x, QUAD)
#ifdef BIAS
// Whether a group of four elements never crosses the end of a row.
ALIGNED_ROWS(VECTOR, 1);
INPUT(2, bias, vec4)
#define LAST 3
#else
#define LAST 2
#endif
OUTPUT(LAST, y, QUAD)

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
    float a;
    float b;
#ifdef BIAS
    uint width;
#endif
} push;

#define PARAMETER_A SETTLED(push.a)
#define PARAMETER_B SETTLED(push.b)

void four(uint quad) {
    vec4 sum = wide(x_4[quad]);
#ifdef BIAS
    uvec4 at = (4u * quad + uvec4(0u, 1u, 2u, 3u)) % push.width;
    sum += VECTOR ? bias_4[at.x / 4u] : vec4(bias[at.x], bias[at.y], bias[at.z], bias[at.w]);
#endif
    y_4[quad] = narrow(value_4(ACTIVATION, sum, PARAMETER_A, PARAMETER_B));
}

void one(uint place) {
    float sum = SETTLED(x[place]);
#ifdef BIAS
    sum += bias[place % push.width];
#endif
    y[place] = CANONICAL(value(ACTIVATION, sum, PARAMETER_A, PARAMETER_B));
}

#include "elements-main.glsl"
