#version 460
// Computes: y = x in another element type; 16-bit types are packed two per word, the first in the lower half.
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the words of the result.
// Reduction order: none.
// Assumes: elements < 2^32; a workgroup's are a multiple of 4, of 8 where the result has 16 bits; with EVERYWHERE, conversion 2 or 4.
//# numerics = ["run", "everywhere"]
#ifndef EVERYWHERE
#define STORED BFLOAT16
#include "stored.glsl"
#include "half.glsl"
#endif
#include "elements.glsl"

// 0: float32 to float16, 1: float16 to float32, 2: int32 to float32, 3: int32 to float16, 4: a copy, 5: float32 to
// bfloat16, 6: bfloat16 to float32.
layout(constant_id = 0) const uint CONVERSION = 0;

layout(std430, binding = 1) readonly buffer X { uint x[]; };
layout(std430, binding = 1) readonly buffer X2 { uvec2 x_2[]; };
layout(std430, binding = 1) readonly buffer X4 { uvec4 x_4[]; };
layout(std430, binding = 2) writeonly buffer Y { uint y[]; };
layout(std430, binding = 2) writeonly buffer Y4 { uvec4 y_4[]; };

layout(push_constant) uniform Push { ELEMENT_MEMBERS } push;

// The first element of this workgroup and the end of its range.
uvec2 own;

float number(uint word) {
    return CONVERSION == 2u || CONVERSION == 3u ? float(int(word)) : uintBitsToFloat(word);
}

#ifndef EVERYWHERE
// Four numbers in 16 bits.
uvec2 packed(vec4 quad) {
    return CONVERSION == 5u ? narrow(quad) : pack_halves(quad);
}

// The same in float32.
vec4 unpacked(uvec2 words) {
    return CONVERSION == 6u ? wide(words) : vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y));
}
#endif

vec4 numbers(uvec4 words) {
    return vec4(number(words.x), number(words.y), number(words.z), number(words.w));
}

// Words 4 quad .. 4 quad + 3 of the result.
void four(uint quad) {
    switch (CONVERSION) {
#ifndef EVERYWHERE
        case 1u:
        case 6u: y_4[quad] = floatBitsToUint(unpacked(x_2[quad])); break;
#endif
        case 2u: y_4[quad] = floatBitsToUint(vec4(ivec4(x_4[quad]))); break;
        case 4u: y_4[quad] = x_4[quad]; break;
#ifndef EVERYWHERE
        default: y_4[quad] = uvec4(packed(numbers(x_4[2u * quad])), packed(numbers(x_4[2u * quad + 1u])));
#endif
    }
}

float element(uint i) {
    return i < own.y ? number(x[i]) : 0.0;
}

void one(uint word) {
    switch (CONVERSION) {
#ifndef EVERYWHERE
        case 1u:
        case 6u: {
            vec2 pair = unpacked(uvec2(x[word / 2u], 0u)).xy;
            y[word] = floatBitsToUint((word & 1u) == 0u ? pair.x : pair.y);
            break;
        }
#endif
        case 2u: y[word] = floatBitsToUint(element(word)); break;
        case 4u: y[word] = x[word]; break;
#ifndef EVERYWHERE
        default: y[word] = packed(vec4(element(2u * word), element(2u * word + 1u), 0.0, 0.0)).x;
#endif
    }
}

void main() {
    // Complete words, in groups of four; fewer than four remain.
    const bool NARROWS = CONVERSION == 0u || CONVERSION == 3u || CONVERSION == 5u;
    own = own_elements(push.rows_of, push.rows, push.columns, push.rows_per_group);
    uint first = NARROWS ? own.x / 2u : own.x;
    uint whole = (NARROWS ? own.y / 2u : own.y) & ~3u;
    for (uint quad = first / 4u + gl_LocalInvocationIndex; quad < whole / 4u; quad += 256u) {
        four(quad);
    }
    uint rest = max(first, whole) + gl_LocalInvocationIndex;
    if (rest < (NARROWS ? (own.y + 1u) / 2u : own.y)) {
        one(rest);
    }
}
