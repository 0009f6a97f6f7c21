#version 460
// Computes: y = x / (1 - p) where u >= p, else 0, elementwise; u uniform, from Philox4x32-10; with KEYED, key and
// counter are read from the buffer instead of the push block.
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: none.
// Assumes: elements < 2^32; rows_per_group * columns is a multiple of 4.
//# stored = ["float32", "float16", "bfloat16"]
//#
//# [builds]
//# dropout-keyed = { define = "KEYED" }
#include "stored.glsl"
#include "elements.glsl"
#include "numbers/philox.glsl"

INPUT(1, x, QUAD)
OUTPUT(2, y, QUAD)

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
    float p;
    SEED_MEMBERS
#ifdef KEYED
    // Third word of the counters.
    uint stream;
#endif
} push;

#ifdef KEYED
layout(std430, binding = 3) readonly buffer Key { uint key[]; };
#endif

bvec4 kept(uint quad) {
#ifdef KEYED
    return kept_by_chance(push.p, quad, uvec2(key[0], key[1]), uvec2(key[2], key[3]), uvec2(push.stream, 0u));
#else
    return kept_by_chance(push.p, quad, SEED_WORDS, OFFSET_WORDS);
#endif
}

void four(uint quad) {
    y_4[quad] = narrow(mix(vec4(0.0), wide(x_4[quad]) / (1.0 - push.p), kept(quad)));
}

void one(uint place) {
    y[place] = kept(place / 4u)[place % 4u] ? x[place] / (1.0 - push.p) : 0.0;
}

#include "elements-main.glsl"
