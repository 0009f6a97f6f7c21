#version 460
// Computes: y = sum, mean, largest or deviation of x [outer, n, inner] over n (weights [outer, n]), in STAGEs if n is long, with
// the same bits on every device.
// Grid: x = ceil(outer chunks inner / 4), continued along y; 64 invocations a column.
// Reduction order: 64 lanes of elements of a chunk 64 apart, in order, then as a tree; chunks likewise.
// Assumes: fewer than 2^32 elements; chunks = ceil(n / chunk). A loop is unrolled in part: lavapipe ends all loops of an invocation
// after 65,535 iterations together.
//# numerics = ["everywhere"]
#extension GL_EXT_control_flow_attributes : require
#include "kinds.glsl"
#include "numbers.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint KIND = 0;
layout(constant_id = 1) const bool WEIGHTED = false;
// 0: all of n; 1: each chunk, PLANES values per column; 2: from such values to the result, with n chunks.
layout(constant_id = 2) const uint STAGE = 0;
// Values per part: sum, largest or squared deviations; if 2, also the sum of weights, whether any is positive, or the mean.
layout(constant_id = 3) const uint PLANES = 1;

const bool MERGES = STAGE == 2u;

layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Weights { float weights[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
    uint outer;
    // Elements to reduce here, or parts if MERGES.
    uint n;
    uint inner;
    uint chunk;
    uint chunks;
    // Elements of the axis, and of each part but the last if MERGES.
    uint all;
    uint part;
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

// Term k of a column of x [n, inner] at index o of the axes before.
float term(uint what, uint o, uint k, uint column, float mean) {
    uint row = o * push.n + k;
    if (MERGES) {
        float value = settled(x[row * PLANES * push.inner + column]);
        float other = PLANES == 2u ? settled(x[(row * PLANES + 1u) * push.inner + column]) : 0.0;
        if (KIND != REDUCE_DEVIATION) {
            return what == ELEMENTS ? value : other;
        }
        float count = float(min(push.part, push.all - k * push.part));
        float deviation = other - mean;
        return what == ELEMENTS ? settled(count * other) : value + settled(count * settled(deviation * deviation));
    }
    float weight = WEIGHTED ? settled(weights[row]) : 1.0;
    if (what == OF_WEIGHTS) {
        return weight;
    }
    if (what == POSITIVE) {
        return weight > 0.0 ? 1.0 : 0.0;
    }
    float element = settled(x[row * push.inner + column]);
    if (what == SQUARES) {
        float deviation = element - mean;
        return settled(deviation * deviation);
    }
    if (!WEIGHTED) {
        return element;
    }
    return KIND == REDUCE_MAX ? (weight > 0.0 ? element : uintBitsToFloat(0xff800000u)) : settled(weight * element);
}

// The reduction of terms own.x .. own.y of a column. Must be called by every invocation of the workgroup.
float reduced(uint what, uint o, uvec2 own, uint column, float mean) {
    uint slot = gl_LocalInvocationIndex;
    uint lane = slot / COLUMNS;
    float found = KIND == REDUCE_MAX ? uintBitsToFloat(0xff800000u) : 0.0;
    for (uint four = own.x + lane; four < own.y; four += 4u * LANES) {
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            uint k = four + LANES * i;
            if (k < own.y) {
                found = joined(found, term(what, o, k, column, mean));
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
    bool there = line < push.outer * push.chunks * push.inner;
    uint unit = line / push.inner;
    uint column = line % push.inner;
    uint o = unit / push.chunks;
    uint first = unit % push.chunks * push.chunk;
    uvec2 own = there ? uvec2(first, min(first + push.chunk, push.n)) : uvec2(0u);
    float count = float(MERGES ? push.all : own.y - own.x);
    float found = reduced(ELEMENTS, o, own, column, 0.0);
    float other = 0.0;
    if (KIND == REDUCE_DEVIATION) {
        other = divided(found, count);
        found = reduced(SQUARES, o, own, column, other);
    } else if (KIND != REDUCE_SUM && WEIGHTED) {
        other = reduced(KIND == REDUCE_MAX ? POSITIVE : OF_WEIGHTS, o, own, column, 0.0);
    }
    if (!there || gl_LocalInvocationIndex >= COLUMNS) {
        return;
    }
    if (STAGE == 1u) {
        y[unit * PLANES * push.inner + column] = canonical(found);
        if (PLANES == 2u) {
            y[(unit * PLANES + 1u) * push.inner + column] = canonical(other);
        }
        return;
    }
    if (KIND == REDUCE_MEAN) {
        found = divided(found, WEIGHTED ? (other < 1e-9 ? 1e-9 : other) : count);
    } else if (KIND == REDUCE_MAX && WEIGHTED) {
        found = other > 0.0 ? found : 0.0;
    } else if (KIND == REDUCE_DEVIATION) {
        found = rooted(divided(found, count));
    }
    y[line] = canonical(found);
}
