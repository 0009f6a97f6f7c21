#version 460
// Computes: scale[m] = 127 / max(max_k |x[m, k]|, 1e-5); x [rows, columns]. The first of the two dispatches of
// quantize_rows.
// Grid: rows workgroups of 256 invocations, continued along y.
// Reduction order: irrelevant; a maximum.
// Assumes: elements < 2^32; x is finite.

layout(local_size_x = 256) in;

layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) writeonly buffer Scale { float scale[]; };

layout(push_constant) uniform Push {
    uint rows;
    uint columns;
} push;

shared float largest[256];

void main() {
    uint row = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (row >= push.rows) {
        return;
    }
    uint lane = gl_LocalInvocationIndex;
    float own = 1e-5;
    for (uint column = lane; column < push.columns; column += 256u) {
        own = max(own, abs(x[row * push.columns + column]));
    }
    largest[lane] = own;
    for (uint step = 128u; step > 0u; step /= 2u) {
        barrier();
        if (lane < step) {
            largest[lane] = max(largest[lane], largest[lane + step]);
        }
    }
    if (lane == 0u) {
        scale[row] = 127.0 / largest[0];
    }
}
