// Elements of rows as 8-bit integers.
#include "arithmetic.glsl"
#define INFINITY uintBitsToFloat(0x7f800000u)

// Whether none is infinite or NaN.
bool is_finite(vec4 quad) {
    return all(lessThan(floatBitsToUint(abs(quad)), uvec4(0x7f800000u)));
}

// clamp(round(quad factor) + middle, -128, 127), the first in the lowest byte.
uint integers(vec4 quad, float factor, float middle) {
    precise vec4 scaled = PRODUCT(quad, factor);
    ivec4 bytes = ivec4(clamp(roundEven(scaled) + middle, -128.0, 127.0)) & 0xff;
    return uint(bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24);
}
