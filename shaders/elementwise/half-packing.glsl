#version 460
// Computes: y[i] = x[i] as float16, two per word, rounded as the driver's packHalf2x16 does.
// Grid: one workgroup of 64 invocations, one pair each.
// Reduction order: none.
// Assumes: nothing. Not an operation: a probe, run once when a device is opened (src/backend/vulkan/probe.rs).
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer X { vec2 x[]; };
layout(std430, binding = 1) writeonly buffer Y { uint y[]; };

void main() {
    y[gl_LocalInvocationIndex] = packHalf2x16(x[gl_LocalInvocationIndex]);
}
