#version 460
// Computes: y = sum, mean, largest or deviation of x [outer, n, inner] over n (weights [outer, n]), with the same bits on every
// device.
// Grid: x = ceil(outer inner / 4), continued along y; 64 invocations a column.
// Reduction order: 64 lanes of elements 64 apart, in order, then as a tree.
// Assumes: fewer than 2^32 elements. A loop is unrolled in part: lavapipe ends all loops of an invocation after 65,535 iterations
// together.
//# numerics = ["everywhere"]
#extension GL_EXT_control_flow_attributes : require
#include "kinds.glsl"
#include "numbers.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint KIND = 0;
layout(constant_id = 1) const bool WEIGHTED = false;

layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Weights { float weights[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
    uint outer;
    uint n;
    uint inner;
} push;

// Lane l of column c of the workgroup is invocation 4 l + c.
const uint COLUMNS = 4u;
const uint LANES = 64u;
shared float of_lanes[256];

// What is reduced: elements, squares of their deviations, weights, whether a weight is positive.
const uint ELEMENTS = 0u;
const uint SQUARES = 1u;
const uint OF_WEIGHTS = 2u;
const uint POSITIVE = 3u;

float joined(float a, float b) {
    return KIND == REDUCE_MAX ? nan_max(a, b) : a + b;
}

float term(uint what, uint at, uint of_weight, float mean) {
    float weight = WEIGHTED ? settled(weights[of_weight]) : 1.0;
    if (what == OF_WEIGHTS) {
        return weight;
    }
    if (what == POSITIVE) {
        return weight > 0.0 ? 1.0 : 0.0;
    }
    float element = settled(x[at]);
    if (what == SQUARES) {
        float deviation = element - mean;
        return settled(deviation * deviation);
    }
    if (!WEIGHTED) {
        return element;
    }
    return KIND == REDUCE_MAX ? (weight > 0.0 ? element : uintBitsToFloat(0xff800000u)) : settled(weight * element);
}

// The reduction of a column's terms. Must be called by every invocation of the workgroup.
float reduced(uint what, uint line, bool there, float mean) {
    uint slot = gl_LocalInvocationIndex;
    uint lane = slot / COLUMNS;
    uint row = line / push.inner * push.n;
    uint column = line % push.inner;
    float found = KIND == REDUCE_MAX ? uintBitsToFloat(0xff800000u) : 0.0;
    uint n = there ? push.n : 0u;
    for (uint four = lane; four < n; four += 4u * LANES) {
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            uint k = four + LANES * i;
            if (k < n) {
                found = joined(found, term(what, (row + k) * push.inner + column, row + k, mean));
            }
        }
    }
    barrier();
    of_lanes[slot] = found;
    for (uint reach = LANES / 2u; reach > 0u; reach /= 2u) {
        barrier();
        if (lane < reach) {
            of_lanes[slot] = joined(of_lanes[slot], of_lanes[slot + reach * COLUMNS]);
        }
    }
    barrier();
    return of_lanes[slot % COLUMNS];
}

void main() {
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint line = group * COLUMNS + gl_LocalInvocationIndex % COLUMNS;
    // Invocations without a column take part in the barriers.
    bool there = line < push.outer * push.inner;
    float found = reduced(ELEMENTS, line, there, 0.0);
    float count = float(push.n);
    if (KIND == REDUCE_MEAN && WEIGHTED) {
        float weight = reduced(OF_WEIGHTS, line, there, 0.0);
        found = divided(found, weight < 1e-9 ? 1e-9 : weight);
    } else if (KIND == REDUCE_MEAN) {
        found = divided(found, count);
    } else if (KIND == REDUCE_MAX && WEIGHTED) {
        found = reduced(POSITIVE, line, there, 0.0) > 0.0 ? found : 0.0;
    } else if (KIND == REDUCE_DEVIATION) {
        found = rooted(divided(reduced(SQUARES, line, there, divided(found, count)), count));
    }
    if (there && gl_LocalInvocationIndex < COLUMNS) {
        y[line] = canonical(found);
    }
}
