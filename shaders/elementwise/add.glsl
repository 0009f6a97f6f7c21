#version 460
// Computes: y = a + b, elementwise; a, b, y [rows, columns].
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations walk over the elements of those rows.
// Reduction order: none.
// Assumes: rows * columns < 2^32.
#extension GL_GOOGLE_include_directive : require
#include "counts.glsl"

layout(local_size_x = 256) in;

layout(std430, binding = 1) readonly buffer A { float a[]; };
layout(std430, binding = 2) readonly buffer B { float b[]; };
layout(std430, binding = 3) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
    uint rows_of;
    uint rows;
    uint columns;
    uint rows_per_group;
} push;

void main() {
    uint first = gl_WorkGroupID.x * push.rows_per_group;
    uint last = min(first + push.rows_per_group, batch_rows(push.rows_of, push.rows));
    for (uint i = first * push.columns + gl_LocalInvocationIndex; i < last * push.columns; i += 256u) {
        y[i] = a[i] + b[i];
    }
}
