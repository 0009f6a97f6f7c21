#version 460
// Computes: y = -(t max(log p, -100) + (1 - t) max(log(1 - p), -100)), elementwise; p, t, y [rows, columns].
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: none.
// Assumes: elements < 2^32; rows_per_group * columns is a multiple of 4.
#include "elements.glsl"
#include "numbers.glsl"
#include "stored.glsl"

INPUT(1, p, vec4)
INPUT(2, t, vec4)
OUTPUT(3, y, vec4)

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
} push;

// log(1 - p); where p is small, 1 - p would lose its low bits.
float logarithm_of_rest(float p) {
    return abs(p) < 0.25 ? logarithm_near(-p, 0.0) : logarithm(1.0 - p);
}

float loss(float p, float t) {
    return -(t * nan_max(logarithm(p), -100.0) + (1.0 - t) * nan_max(logarithm_of_rest(p), -100.0));
}

void four(uint quad) {
    vec4 probability = p_4[quad];
    vec4 target = t_4[quad];
    y_4[quad] = vec4(
        loss(probability.x, target.x), loss(probability.y, target.y),
        loss(probability.z, target.z), loss(probability.w, target.w));
}

void one(uint place) {
    y[place] = loss(p[place], t[place]);
}

#include "elements-main.glsl"
