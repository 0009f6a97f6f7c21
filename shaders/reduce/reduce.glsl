#version 460
// Computes: y = sum, mean, largest or deviation of x [outer, n, inner] over n (weights [outer, n]), in STAGEs if n is
// long.
// Grid: x = ceil(outer chunks / UNITS) * ceil(inner / COLUMNS), continued along y; 256 = UNITS x LANES x COLUMNS.
// Reduction order: lane i takes elements i, i + LANES, ... of a chunk in four chains; then lanes as a tree; chunks likewise.
// Assumes: LANES and COLUMNS are powers of two with a product up to 256; chunks = ceil(n / chunk). With QUADS, a
// column, and the unit of `inner`, is four columns of the tensor, whose x may have 16 bits.
//# [builds]
//# reduce-quads = { define = "QUADS", stored = ["float32", "float16", "bfloat16"] }  # chosen by the shape in src/backend/vulkan/kernels/reduce.rs
#include "kinds.glsl"
#include "numbers.glsl"
#include "stored.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint LANES = 256;
layout(constant_id = 1) const uint COLUMNS = 1;
layout(constant_id = 2) const uint KIND = 0;
layout(constant_id = 3) const bool WEIGHTED = false;
// 0: all of n; 1: each chunk, PLANES values per column; 2: from such values to the result, with n chunks.
layout(constant_id = 4) const uint STAGE = 0;
// Values per part: sum, largest or squared deviations; if 2, also the sum of weights, whether any is positive, or the
// mean.
layout(constant_id = 5) const uint PLANES = 1;

const uint UNITS = 256u / (LANES * COLUMNS);
const bool MERGES = STAGE == 2u;

#ifdef QUADS
#define Value vec4
#define Element QUAD
#define READ(element) wide(element)
#else
#define Value float
#define Element float
#define READ(element) element
#endif

layout(std430, binding = 0) readonly buffer X { Element x[]; };
layout(std430, binding = 1) readonly buffer Weights { float weights[]; };
layout(std430, binding = 2) writeonly buffer Y { Value y[]; };

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

// A sum, largest element or squared deviations, and a sum of weights, whether one is positive, or a mean.
struct Part {
    Value value;
    Value other;
};

shared Value of_lanes[256];
shared Value others_of_lanes[256];

// The part of no elements.
Part nothing() {
    return Part(Value(KIND == REDUCE_MAX ? uintBitsToFloat(0xff800000u) : 0.0), Value(0.0));
}

uint lane() {
    return gl_LocalInvocationIndex / COLUMNS % LANES;
}

#ifdef QUADS
vec4 nan_max(vec4 a, vec4 b) {
    return vec4(nan_max(a.x, b.x), nan_max(a.y, b.y), nan_max(a.z, b.z), nan_max(a.w, b.w));
}
#endif

Part joined(Part a, Part b) {
    if (KIND == REDUCE_MAX) {
        return Part(nan_max(a.value, b.value), max(a.other, b.other));
    }
    return Part(a.value + b.value, a.other + b.other);
}

Part of_lane(uint slot) {
    return Part(of_lanes[slot], others_of_lanes[slot]);
}

void keep(uint slot, Part part) {
    of_lanes[slot] = part.value;
    others_of_lanes[slot] = part.other;
}

// Reduces the parts of a chunk's column over its lanes. Must be called by every invocation of the workgroup.
Part over_lanes(Part part) {
    uint slot = gl_LocalInvocationIndex;
    barrier();
    keep(slot, part);
    barrier();
    for (uint reach = LANES / 2u; reach > 0u; reach /= 2u) {
        if (lane() < reach) {
            keep(slot, joined(of_lane(slot), of_lane(slot + reach * COLUMNS)));
        }
        barrier();
    }
    return of_lane(slot - lane() * COLUMNS);
}

// Element or part k, if it exists; `first_pass` computes the mean of a deviation, which the second pass subtracts.
Part element(uint o, uint k, uint last, uint column, bool first_pass, Value mean) {
    bool there = k < last;
    uint row = there ? o * push.n + k : 0u;
    column = there ? column : 0u;
    Value a = READ(x[row * (MERGES ? PLANES : 1u) * push.inner + column]);
    Value b = MERGES && PLANES == 2u ? READ(x[(row * 2u + 1u) * push.inner + column]) : Value(0.0);
    Part part = Part(a, Value(1.0));
    if (KIND == REDUCE_DEVIATION) {
        float count = float(min(push.part, push.all - k * push.part));
        Value centred = (MERGES ? b : a) - mean;
        if (first_pass) {
            part.value = MERGES ? count * b : a;
        } else {
            part.value = MERGES ? a + count * centred * centred : centred * centred;
        }
    } else if (MERGES) {
        part.other = b;
    } else if (WEIGHTED) {
        float w = weights[row];
        if (KIND == REDUCE_MAX) {
            part = w > 0.0 ? part : nothing();
        } else {
            part = Part(a * w, Value(w));
        }
    }
    return there ? part : nothing();
}

Part over_chunk(uint o, uint first, uint last, uint column, bool first_pass, Value mean) {
    Part a = nothing(), b = nothing(), c = nothing(), d = nothing();
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

    Part part;
    if (KIND == REDUCE_DEVIATION) {
        Value mean = over_chunk(o, first, last, column, true, Value(0.0)).value / count;
        part = Part(over_chunk(o, first, last, column, false, mean).value, mean);
    } else {
        part = over_chunk(o, first, last, column, false, Value(0.0));
    }
    if (!there || lane() != 0u) {
        return;
    }
    if (STAGE == 1u) {
        y[unit * PLANES * push.inner + column] = part.value;
        if (PLANES == 2u) {
            y[(unit * 2u + 1u) * push.inner + column] = part.other;
        }
        return;
    }
    Value result = part.value;
    if (KIND == REDUCE_MEAN) {
        result = part.value / (WEIGHTED ? nan_max(part.other, Value(1e-9)) : Value(count));
    } else if (KIND == REDUCE_MAX && WEIGHTED) {
        // Weights belong to rows: they are the same for all columns of a quad.
        result = part.other == Value(0.0) ? Value(0.0) : part.value;
    } else if (KIND == REDUCE_DEVIATION) {
        result = sqrt(part.value / count);
    }
    y[unit * push.inner + column] = result;
}
