#version 460
// Computes: eight words of each quad of x = (a, b, c, d): a b + c; (a + b) - a; a settled; a / b; sqrt a; d, an integer, as a
// float; a rounded to an integer; the sum of 64 bits (a, b) times 2^d as a float. A device that computes them as written has the
// arithmetic of arithmetic.glsl.
// Grid: one workgroup.
// Reduction order: none.
// Assumes: 64 quads.
//# numerics = ["everywhere"]
#include "arithmetic.glsl"
#include "everywhere/exact-integers.glsl"

layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer X { uvec4 x[]; };
layout(std430, binding = 1) writeonly buffer Y { uint y[]; };

void main() {
    uvec4 quad = x[gl_LocalInvocationIndex];
    float a = uintBitsToFloat(quad.x), b = uintBitsToFloat(quad.y), c = uintBitsToFloat(quad.z);
    int d = int(quad.w);
    uint at = 8u * gl_LocalInvocationIndex;
    y[at] = floatBitsToUint(canonical(a * b + c));
    y[at + 1u] = floatBitsToUint(canonical((a + b) - a));
    y[at + 2u] = floatBitsToUint(canonical(settled(a)));
    y[at + 3u] = floatBitsToUint(divided(settled(a), settled(b)));
    y[at + 4u] = floatBitsToUint(rooted(settled(a)));
    y[at + 5u] = floatBitsToUint(float(d));
    y[at + 6u] = floatBitsToUint(canonical(roundEven(a)));
    y[at + 7u] = floatBitsToUint(assembled(quad.xy, d >> 24));
}
