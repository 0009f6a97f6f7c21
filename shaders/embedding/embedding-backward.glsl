#version 460
// Computes: y[v] = sum of g[order[i]], i = starts[v] .. starts[v + 1] - 1; g [tokens, columns], y [rows, columns].
// Grid: x = ceil(rows / (256 / LANES)) * ceil(quads of a row / LANES), continued along y.
// Reduction order: i in order, on every device.
// Assumes: order below tokens, starts at most the length of order; with VECTOR, columns are a multiple of 4.
#extension GL_EXT_control_flow_attributes : require
#include "counts.glsl"
#include "stored.glsl"

layout(local_size_x = 256) in;
// Invocations that share a row, a power of two.
layout(constant_id = 0) const uint LANES = 64;
layout(constant_id = 1) const bool VECTOR = false;

INPUT(1, g, vec4)
layout(std430, binding = 2) readonly buffer Order { uint order[]; };
layout(std430, binding = 3) readonly buffer Starts { uint starts[]; };
OUTPUT(4, y, vec4)

layout(push_constant) uniform Push {
    ROW_MEMBERS
    uint places_of;
    uint places;
    // Workgroups that share a row.
    uint blocks;
} push;

// g[order[i], c .. c + 3]; past the last column, that column again.
vec4 load(uint i, uint c) {
    uint start = order[i] * push.columns;
    if (VECTOR) {
        return g_4[(start + c) / 4u];
    }
    uvec4 at = start + min(c + uvec4(0u, 1u, 2u, 3u), uvec4(push.columns - 1u));
    return vec4(g[at.x], g[at.y], g[at.z], g[at.w]);
}

void main() {
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint row = group / push.blocks * (256u / LANES) + gl_LocalInvocationIndex / LANES;
    uint c = 4u * (group % push.blocks * LANES + gl_LocalInvocationIndex % LANES);
    if (row >= batch_rows(push.rows_of, push.rows) || c >= push.columns) {
        return;
    }
    uint i = starts[row];
    uint end = min(starts[row + 1u], batch_rows(push.places_of, push.places));
    precise vec4 quad = vec4(0.0);
    // Four loads in flight at once.
    for (; i + 4u <= end; i += 4u) {
        vec4 a = load(i, c), b = load(i + 1u, c), d = load(i + 2u, c), e = load(i + 3u, c);
        quad = quad + a;
        quad = quad + b;
        quad = quad + d;
        quad = quad + e;
    }
    for (; i < end; i++) {
        quad = quad + load(i, c);
    }
    uint at = row * push.columns + c;
    STORE_QUAD(y, VECTOR, c, push.columns)
}
