#version 460
// Computes: y = x in another element type; float16 lies two to a word, the lower half first.
// Grid: x = ceil(words / push.words_per_group); 256 invocations walk over the words of the result.
// Reduction order: none.
// Assumes: elements < 2^32; words_per_group is a multiple of 4.
#extension GL_GOOGLE_include_directive : require
#include "numbers.glsl"

layout(local_size_x = 256) in;
// 0: float32 to float16, 1: float16 to float32, 2: int32 to float32, 3: int32 to float16, 4: a copy.
layout(constant_id = 0) const uint CONVERSION = 0;

layout(std430, binding = 0) readonly buffer X { uint x[]; };
layout(std430, binding = 0) readonly buffer X2 { uvec2 x_2[]; };
layout(std430, binding = 0) readonly buffer X4 { uvec4 x_4[]; };
layout(std430, binding = 1) writeonly buffer Y { uint y[]; };
layout(std430, binding = 1) writeonly buffer Y4 { uvec4 y_4[]; };

layout(push_constant) uniform Push {
    uint elements;
    uint words;
    uint words_per_group;
} push;

// Rounds to nearest, ties to even, where packHalf2x16 may round as it likes. NaN stays NaN.
uint half_bits(float value) {
    uint bits = floatBitsToUint(value);
    uint sign = (bits >> 16) & 0x8000u;
    uint magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return sign | 0x7e00u;
    }
    if (magnitude >= 0x477ff000u) {
        // From 65520 on the nearest is infinity.
        return sign | 0x7c00u;
    }
    if (magnitude < 0x38800000u) {
        // Below 2^-14 the spacing is 2^-24: adding 1/2 puts it into the last bit, which rounds as the sum does.
        precise float shifted = uintBitsToFloat(magnitude) + 0.5;
        return sign | (floatBitsToUint(shifted) - 0x3f000000u);
    }
    uint odd = (magnitude >> 13) & 1u;
    return sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13);
}

float number(uint word) {
    return CONVERSION >= 2u ? float(int(word)) : uintBitsToFloat(word);
}

uvec2 halves(uvec4 words) {
    return uvec2(
        half_bits(number(words.x)) | half_bits(number(words.y)) << 16,
        half_bits(number(words.z)) | half_bits(number(words.w)) << 16);
}

// Words 4 quad .. 4 quad + 3 of the result.
void four(uint quad) {
    switch (CONVERSION) {
        case 1u: {
            uvec2 words = x_2[quad];
            y_4[quad] = floatBitsToUint(vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y)));
            break;
        }
        case 2u: y_4[quad] = floatBitsToUint(vec4(ivec4(x_4[quad]))); break;
        case 4u: y_4[quad] = x_4[quad]; break;
        default: y_4[quad] = uvec4(halves(x_4[2u * quad]), halves(x_4[2u * quad + 1u]));
    }
}

float element(uint i) {
    return i < push.elements ? number(x[i]) : 0.0;
}

void one(uint word) {
    switch (CONVERSION) {
        case 1u: {
            vec2 pair = unpackHalf2x16(x[word / 2u]);
            y[word] = floatBitsToUint((word & 1u) == 0u ? pair.x : pair.y);
            break;
        }
        case 2u: y[word] = floatBitsToUint(element(word)); break;
        case 4u: y[word] = x[word]; break;
        default: y[word] = half_bits(element(2u * word)) | half_bits(element(2u * word + 1u)) << 16;
    }
}

void main() {
    // Words whose elements are all there, by fours; those left over are less than four.
    bool narrows = CONVERSION == 0u || CONVERSION == 3u;
    uint whole = (narrows ? push.elements / 2u : push.words) & ~3u;
    uint first = gl_WorkGroupID.x * push.words_per_group;
    uint last = min(first + push.words_per_group, push.words);
    for (uint quad = first / 4u + gl_LocalInvocationIndex; quad < min(last, whole) / 4u; quad += 256u) {
        four(quad);
    }
    uint rest = max(first, whole) + gl_LocalInvocationIndex;
    if (rest < last) {
        one(rest);
    }
}
