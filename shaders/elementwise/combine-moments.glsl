#version 460
// Computes: covariance = (1 - share) covariance + share (other + (1 - share) d d^T); mean = mean + share d; in place, where d,
//           `difference`, is the mean of `other` less `mean`.
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of the covariance.
// Reduction order: none.
// Assumes: elements < 2^32; rows_per_group * columns is a multiple of 4; the covariance is [width, width].
#include "elements.glsl"

layout(std430, binding = 1) buffer Mean { float mean[]; };
layout(std430, binding = 2) buffer Covariance { float covariance[]; };
layout(std430, binding = 3) readonly buffer Difference { float difference[]; };
layout(std430, binding = 4) readonly buffer Other { float other[]; };
layout(std430, binding = 5) readonly buffer Share { float share[]; };

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
    uint width;
} push;

void one(uint place) {
    float by = share[0];
    float across = difference[place % push.width];
    // The product of both differences first, so that the result is symmetric in every bit.
    precise float outer = (1.0 - by) * (difference[place / push.width] * across);
    precise float joined = (1.0 - by) * covariance[place] + by * (other[place] + outer);
    covariance[place] = joined;
    // The first row has every column once.
    if (place < push.width) {
        precise float change = by * across;
        mean[place] += change;
    }
}

#define SINGLY
#include "elements-main.glsl"
