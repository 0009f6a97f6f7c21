#version 460
// Computes: y[t, c] = sum over j of weight[t, c / block, j] x[t + j - before, c], over rows of the same text; x and y [rows,
// width], weight [rows, width / block, taps], or [1, width / block, taps] with apart 0.
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: j in order, one fma per step from zero, with EVERYWHERE a product and a sum.
// Assumes: offsets [B + 1] increase from 0 to the rows; elements < 2^32; rows_per_group * columns is a multiple of 4, and width
// with VECTOR; before < taps.
//# stored = ["float32", "float16", "bfloat16"]
//# numerics = ["run", "everywhere"]
#include "stored.glsl"
#include "elements.glsl"
#include "attention/attention-texts.glsl"

// Whether width is a multiple of four.
ALIGNED_ROWS(VECTOR, 0);

INPUT(1, x, QUAD)
layout(std430, binding = 2) readonly buffer Weight { float weight[]; };
layout(std430, binding = 3) readonly buffer Offsets { uint offsets[]; };
OUTPUT(4, y, QUAD)

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
    uint width;
    // Columns that share weights.
    uint block;
    uint taps;
    // Weights of a row, 0 where all rows have the same.
    uint apart;
    uint before;
} push;

// The first weight of a row that meets a row of its text, and the end of these.
uvec2 seen(uint row) {
    LAST_TEXT(text, counts.texts, offsets[middle] <= row)
    uint first = offsets[text] + push.before;
    return uvec2(first - min(first, row), min(push.taps, offsets[text + 1u] + push.before - row));
}

float sum_of(uint place) {
    uint row = place / push.width;
    uint column = place % push.width;
    uint own = row * push.apart + column / push.block * push.taps;
    uvec2 near = seen(row);
    float sum = 0.0;
    for (uint tap = near.x; tap < near.y; tap++) {
        uint from = (row + tap - push.before) * push.width + column;
        sum = SETTLED_FMA(SETTLED(weight[own + tap]), SETTLED(x[from]), sum);
    }
    return sum;
}

void four(uint quad) {
#if STORED == FLOAT32
    if (!VECTOR) {
        uint place = 4u * quad;
        y_4[quad] = CANONICAL(vec4(sum_of(place), sum_of(place + 1u), sum_of(place + 2u), sum_of(place + 3u)));
        return;
    }
#endif
    uint quads = push.width / 4u;
    uint row = quad / quads;
    uint column = quad % quads;
    uvec4 own = row * push.apart + (4u * column + uvec4(0u, 1u, 2u, 3u)) / push.block * push.taps;
    uvec2 near = seen(row);
    vec4 sum = vec4(0.0);
    for (uint tap = near.x; tap < near.y; tap++) {
        uvec4 at = own + tap;
        vec4 weights = SETTLED(vec4(weight[at.x], weight[at.y], weight[at.z], weight[at.w]));
        sum = SETTLED_FMA(weights, wide(x_4[(row + tap - push.before) * quads + column]), sum);
    }
    y_4[quad] = narrow(sum);
}

void one(uint place) {
    y[place] = CANONICAL(sum_of(place));
}

#include "elements-main.glsl"
