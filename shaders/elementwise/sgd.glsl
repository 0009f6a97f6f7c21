#version 460
// Computes: d = g + decay parameter; m = momentum m + d; parameter = parameter - rate m; all in place, with SCALED of factor g.
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: none.
// Assumes: elements < 2^32; rows_per_group * columns is a multiple of 4; a factor of NaN is to change nothing.
#include "elements.glsl"
#include "numbers.glsl"

layout(std430, binding = 1) buffer Parameter { float parameter[]; };
layout(std430, binding = 2) buffer M { float m[]; };
layout(std430, binding = 3) readonly buffer G { float g[]; };
layout(std430, binding = 4) readonly buffer Rate { float rate[]; };
layout(std430, binding = 5) readonly buffer Factor { float factor[]; };
layout(constant_id = 0) const bool SCALED = false;

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
    float momentum;
    float decay;
} push;

void one(uint place) {
    float scale = factor[0];
    if (SCALED && is_nan(scale)) {
        return;
    }
    precise float by = SCALED ? scale * g[place] : g[place];
    precise float old = parameter[place];
    precise float sum = push.momentum * m[place] + (by + push.decay * old);
    precise float change = rate[0] * sum;
    m[place] = sum;
    parameter[place] = old - change;
}

#define SINGLY
#include "elements-main.glsl"
