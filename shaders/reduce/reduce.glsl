#version 460
// Computes: y = sum, mean, largest or deviation of x [outer, n, inner] over n (weights [outer, n]), STAGE by STAGE if n is long.
// Grid: x = ceil(outer chunks / UNITS) * ceil(inner / COLUMNS), going on along y; 256 = UNITS x LANES x COLUMNS.
// Reduction order: lane i takes elements i, i + LANES, ... of a chunk in four chains; then lanes as a tree; chunks likewise.
// Assumes: LANES and COLUMNS are powers of two with a product up to 256; chunks = ceil(n / chunk).
#extension GL_GOOGLE_include_directive : require
#include "numbers.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint LANES = 256;
layout(constant_id = 1) const uint COLUMNS = 1;
// 0: sum, 1: mean, 2: max, 3: deviation.
layout(constant_id = 2) const uint KIND = 0;
layout(constant_id = 3) const bool WEIGHTED = false;
// 0: all of n; 1: each chunk, PLANES values for each column; 2: from such values to the result, chunks being n.
layout(constant_id = 4) const uint STAGE = 0;
// Values a part is kept as: sum, largest or squared deviations; if 2, sum of weights, whether any is positive, or mean.
layout(constant_id = 5) const uint PLANES = 1;

const uint UNITS = 256u / (LANES * COLUMNS);
const bool MERGES = STAGE == 2u;

layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Weights { float weights[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
    uint outer;
    // Elements that are reduced here, parts if MERGES.
    uint n;
    uint inner;
    uint chunk;
    uint chunks;
    // Elements of the axis, and of each part but the last if MERGES.
    uint all;
    uint part;
} push;

shared vec2 of_lanes[256];

uint lane() {
    return gl_LocalInvocationIndex / COLUMNS % LANES;
}

vec2 joined(vec2 a, vec2 b) {
    return KIND == 2u ? vec2(nan_max(a.x, b.x), max(a.y, b.y)) : a + b;
}

// Two values over the lanes of a chunk's column. Every invocation of the workgroup must call it.
vec2 over_lanes(vec2 value) {
    uint slot = gl_LocalInvocationIndex;
    barrier();
    of_lanes[slot] = value;
    barrier();
    for (uint reach = LANES / 2u; reach > 0u; reach /= 2u) {
        if (lane() < reach) {
            of_lanes[slot] = joined(of_lanes[slot], of_lanes[slot + reach * COLUMNS]);
        }
        barrier();
    }
    return of_lanes[slot - lane() * COLUMNS];
}

// Element or part k, if it is there; `first_pass` looks for the mean of a deviation, which the second is about.
vec2 element(uint o, uint k, uint last, uint column, bool first_pass, float mean) {
    bool there = k < last;
    uint row = there ? o * push.n + k : 0u;
    column = there ? column : 0u;
    float a = x[row * (MERGES ? PLANES : 1u) * push.inner + column];
    float b = MERGES && PLANES == 2u ? x[(row * 2u + 1u) * push.inner + column] : 0.0;
    vec2 value;
    if (KIND == 3u) {
        float count = float(min(push.part, push.all - k * push.part));
        float centred = (MERGES ? b : a) - mean;
        if (first_pass) {
            value = vec2(MERGES ? count * b : a, 0.0);
        } else {
            value = vec2(MERGES ? a + count * centred * centred : centred * centred, 0.0);
        }
    } else if (MERGES) {
        value = vec2(a, b);
    } else if (WEIGHTED) {
        float w = weights[row];
        if (KIND == 2u) {
            value = w > 0.0 ? vec2(a, 1.0) : vec2(uintBitsToFloat(0xff800000u), 0.0);
        } else {
            value = vec2(a * w, w);
        }
    } else {
        value = vec2(a, 1.0);
    }
    return there ? value : (KIND == 2u ? vec2(uintBitsToFloat(0xff800000u), 0.0) : vec2(0.0));
}

vec2 over_chunk(uint o, uint first, uint last, uint column, bool first_pass, float mean) {
    vec2 none = KIND == 2u ? vec2(uintBitsToFloat(0xff800000u), 0.0) : vec2(0.0);
    vec2 a = none, b = none, c = none, d = none;
    for (uint k = first + lane(); k < last; k += 4u * LANES) {
        a = joined(a, element(o, k, last, column, first_pass, mean));
        b = joined(b, element(o, k + LANES, last, column, first_pass, mean));
        c = joined(c, element(o, k + 2u * LANES, last, column, first_pass, mean));
        d = joined(d, element(o, k + 3u * LANES, last, column, first_pass, mean));
    }
    return over_lanes(joined(joined(a, b), joined(c, d)));
}

void main() {
    uint blocks = (push.inner + COLUMNS - 1u) / COLUMNS;
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint column = group % blocks * COLUMNS + gl_LocalInvocationIndex % COLUMNS;
    uint unit = group / blocks * UNITS + gl_LocalInvocationIndex / (LANES * COLUMNS);
    // Invocations without a column take part in the barriers with nothing to add.
    bool there = column < push.inner && unit < push.outer * push.chunks;
    uint o = unit / push.chunks;
    uint first = unit % push.chunks * push.chunk;
    uint last = there ? min(first + push.chunk, push.n) : 0u;
    float count = float(MERGES ? push.all : last - min(first, last));

    vec2 value;
    if (KIND == 3u) {
        float mean = over_chunk(o, first, last, column, true, 0.0).x / count;
        value = vec2(over_chunk(o, first, last, column, false, mean).x, mean);
    } else {
        value = over_chunk(o, first, last, column, false, 0.0);
    }
    if (!there || lane() != 0u) {
        return;
    }
    if (STAGE == 1u) {
        y[unit * PLANES * push.inner + column] = value.x;
        if (PLANES == 2u) {
            y[(unit * 2u + 1u) * push.inner + column] = value.y;
        }
        return;
    }
    float result = value.x;
    if (KIND == 1u) {
        result = value.x / (WEIGHTED ? nan_max(value.y, 1e-9) : count);
    } else if (KIND == 2u && WEIGHTED) {
        result = value.y > 0.0 ? value.x : 0.0;
    } else if (KIND == 3u) {
        result = sqrt(value.x / count);
    }
    y[unit * push.inner + column] = result;
}
