#version 460
// Computes: y[m, n] = sum_k q[m, k] weight[n, k]; q [rows, depth], weight [columns, depth], four integers per word.
// Grid: x = ceil(rows * columns / push.places_per_group); 256 invocations loop over the elements of y.
// Reduction order: irrelevant; sums of integers are exact.
// Assumes: elements < 2^32, depth < 2^17; with WHOLE, depth is a multiple of 4.

layout(local_size_x = 256) in;
layout(constant_id = 0) const bool WHOLE = false;

layout(std430, binding = 0) readonly buffer Q { uint q[]; };
layout(std430, binding = 1) readonly buffer Weight { uint weight[]; };
layout(std430, binding = 2) writeonly buffer Y { int y[]; };

layout(push_constant) uniform Push {
    uint places;
    uint columns;
    uint depth;
    uint places_per_group;
} push;

int at(uint word, uint place) {
    return bitfieldExtract(int(word), int(8u * (place % 4u)), 8);
}

int product(uint row, uint column) {
    uint a = row * push.depth, b = column * push.depth;
    int sum = 0;
    if (WHOLE) {
        for (uint k = 0u; k < push.depth / 4u; k++) {
            uint left = q[a / 4u + k], right = weight[b / 4u + k];
            for (uint i = 0u; i < 4u; i++) {
                sum += at(left, i) * at(right, i);
            }
        }
        return sum;
    }
    for (uint k = 0u; k < push.depth; k++) {
        sum += at(q[(a + k) / 4u], a + k) * at(weight[(b + k) / 4u], b + k);
    }
    return sum;
}

void main() {
    uint first = gl_WorkGroupID.x * push.places_per_group;
    uint last = min(first + push.places_per_group, push.places);
    for (uint place = first + gl_LocalInvocationIndex; place < last; place += 256u) {
        y[place] = product(place / push.columns, place % push.columns);
    }
}
