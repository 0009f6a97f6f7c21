// Dropout of attention's weights: some become zero after they are added up, the others are divided by 1 - DROPOUT, the
// probability. The words of seed and offset are bound in place of biases, and push.reach is the number of the stream.
// Built without MASKS attention has none.
#ifdef MASKS
layout(constant_id = 9) const float DROPOUT = 0.0;
layout(std430, binding = 6) readonly buffer DropoutKey { uint dropout_key[]; };
#elif defined(DROPOUT_KEY)
layout(constant_id = 2) const float DROPOUT = 0.0;
layout(std430, binding = DROPOUT_KEY) readonly buffer DropoutKey { uint dropout_key[]; };
#else
const float DROPOUT = 0.0;
const uint dropout_key[4] = uint[](0u, 0u, 0u, 0u);
#endif
#include "numbers/philox.glsl"

// Which of keys 4 quad .. 4 quad + 3 of its text a query keeps, of which the row and the head are given.
bvec4 kept_keys(uint row, uint head, uint heads, uint quad) {
    uvec2 seed = uvec2(dropout_key[0], dropout_key[1]);
    uvec2 offset = uvec2(dropout_key[2], dropout_key[3]);
    return kept_by_chance(DROPOUT, quad, seed, offset, uvec2(push.reach, row * heads + head));
}

vec4 dropped(vec4 x, uint row, uint head, uint heads, uint quad) {
    return mix(vec4(0.0), x / (1.0 - DROPOUT), kept_keys(row, head, heads, quad));
}

#ifdef DROPOUT_KEY
// Which of keys `key` .. `key + 3` it keeps; what is below 0 is of another text.
bvec4 kept_from(uint row, uint head, uint heads, int key) {
    bvec4 low = kept_keys(row, head, heads, uint(key >> 2));
    bvec4 high = kept_keys(row, head, heads, uint((key >> 2) + 1));
    bvec4 kept;
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint place = uint(key & 3) + i;
        kept[i] = place < 4u ? low[place & 3u] : high[place & 3u];
    }
    return kept;
}
#else
// Of weights, of which one below 0, the mark of a hidden key, stays.
vec4 dropped_weights(vec4 x, uint row, uint head, uint quad) {
    return mix(dropped(x, row, head, gl_NumWorkGroups.y, quad), x, lessThan(x, vec4(0.0)));
}
#endif
