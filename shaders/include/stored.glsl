// The storage of activations, tables and matrices. STORED is FLOAT32, or a 16-bit type packed two per word, the first
// in the lower half: then four neighbours are always read and written as a QUAD, never fewer, which needs no device
// feature. Arithmetic is in float32 in any case.
#define FLOAT32 0
#define FLOAT16 1
#define BFLOAT16 2
#ifndef STORED
#define STORED FLOAT32
#endif
#include "arithmetic.glsl"

// Declares a specialization constant for whether rows start at multiples of four elements: always true for 16-bit
// types.
#if STORED == FLOAT32
#define ALIGNED_ROWS(NAME, ID) layout(constant_id = ID) const bool NAME = false
#define QUAD vec4
#else
#define ALIGNED_ROWS(NAME, ID) const bool NAME = true
#define QUAD uvec2
#endif

// Declare the operand, or the result, NAME at binding INDEX: `NAME` has its elements and `NAME_4` groups of four, each
// FOUR: a QUAD, or vec4 for what is float32 in every build.
#define INPUT(INDEX, NAME, FOUR)                                                                                       \
    layout(std430, binding = INDEX) readonly buffer NAME##_elements { float NAME[]; };                                 \
    layout(std430, binding = INDEX) readonly buffer NAME##_quads { FOUR NAME##_4[]; };
#define OUTPUT(INDEX, NAME, FOUR)                                                                                      \
    layout(std430, binding = INDEX) writeonly buffer NAME##_elements { float NAME[]; };                                \
    layout(std430, binding = INDEX) writeonly buffer NAME##_quads { FOUR NAME##_4[]; };

// Declares `quad`, four elements of NAME from `at`, STEP apart; at multiples of four, side by side, if ALIGNED. At most
// MOST follow the first; the others are 0, and the last stands in for them: loads are unconditional, at a valid index,
// since branches around them cost more than they save. If `there` is false, `at` is any valid index.
#define PADDED_QUAD(NAME, ALIGNED, STEP, MOST)                                                                         \
    vec4 quad;                                                                                                         \
    if (ALIGNED) {                                                                                                     \
        quad = wide(NAME##_4[at / 4u]);                                                                                \
    } else {                                                                                                           \
        uint most = there ? MOST : 0u;                                                                                 \
        quad = vec4(NAME[at], NAME[at + min(1u, most) * STEP], NAME[at + min(2u, most) * STEP],                        \
                    NAME[at + min(3u, most) * STEP]);                                                                  \
        quad = mix(quad, vec4(0.0), greaterThan(uvec4(0u, 1u, 2u, 3u), uvec4(most)));                                  \
    }

// Writes `quad` to elements at .. at + 3 of NAME, side by side from a multiple of four if ALIGNED; else those from COLUMN to
// before END, of which the first is there.
#define STORE_QUAD(NAME, ALIGNED, COLUMN, END)                                                                         \
    if (ALIGNED) {                                                                                                     \
        NAME##_4[at / 4u] = narrow(quad);                                                                              \
    } else {                                                                                                           \
        [[unroll]] for (uint j = 0u; j < 4u; j++) {                                                                    \
            if (COLUMN + j < END) {                                                                                    \
                NAME[at + j] = quad[j];                                                                                \
            }                                                                                                          \
        }                                                                                                              \
    }

// Element AT of an operand.
#define NUMBER(NAME, AT) (STORED == FLOAT32 ? NAME[AT] : wide(NAME##_4[(AT) / 4u])[(AT) % 4u])

// Four stored elements, converted to float32.
vec4 wide(vec4 quad) {
    return SETTLED(quad);
}

#if STORED == FLOAT32
// Four results, converted for storage.
vec4 narrow(vec4 quad) {
    return CANONICAL(quad);
}
#elif STORED == FLOAT16
#include "half.glsl"

vec4 wide(uvec2 quad) {
    return vec4(unpackHalf2x16(quad.x), unpackHalf2x16(quad.y));
}

uvec2 narrow(vec4 quad) {
    return pack_halves(quad);
}
#else
vec4 wide(uvec2 quad) {
    return uintBitsToFloat(uvec4(quad.x << 16, quad.x & 0xffff0000u, quad.y << 16, quad.y & 0xffff0000u));
}

// To the nearest, ties to even; NaN stays NaN.
uvec2 narrow(vec4 quad) {
    uvec4 bits = floatBitsToUint(quad);
    uvec4 nearest = bits + 0x7fffu + ((bits >> 16) & 1u);
    nearest = mix(nearest, uvec4(0x7fc00000u), greaterThan(bits & 0x7fffffffu, uvec4(0x7f800000u)));
    return (nearest.xz >> 16) | (nearest.yw & 0xffff0000u);
}
#endif
