#version 460
// Computes: y = x in another element type; float16 lies two to a word, the lower half first.
// Grid: x = ceil(words / 4096); 256 invocations walk over the words of the result.
// Reduction order: none.
// Assumes: elements < 2^32.
#extension GL_GOOGLE_include_directive : require
#include "numbers.glsl"

layout(local_size_x = 256) in;
// 0: float32 to float16, 1: float16 to float32, 2: int32 to float32, 3: int32 to float16, 4: a copy.
layout(constant_id = 0) const uint CONVERSION = 0;

layout(std430, binding = 0) readonly buffer X { uint x[]; };
layout(std430, binding = 1) writeonly buffer Y { uint y[]; };

layout(push_constant) uniform Push {
    uint elements;
    uint words;
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

float element(uint i) {
    if (i >= push.elements) {
        return 0.0;
    }
    return CONVERSION >= 2u ? float(int(x[i])) : uintBitsToFloat(x[i]);
}

void main() {
    uint last = min((gl_WorkGroupID.x + 1u) * 4096u, push.words);
    for (uint i = gl_WorkGroupID.x * 4096u + gl_LocalInvocationIndex; i < last; i += 256u) {
        switch (CONVERSION) {
            case 1u: {
                vec2 pair = unpackHalf2x16(x[i / 2u]);
                y[i] = floatBitsToUint((i & 1u) == 0u ? pair.x : pair.y);
                break;
            }
            case 2u: y[i] = floatBitsToUint(element(i)); break;
            case 4u: y[i] = x[i]; break;
            default: y[i] = half_bits(element(2u * i)) | half_bits(element(2u * i + 1u)) << 16;
        }
    }
}
