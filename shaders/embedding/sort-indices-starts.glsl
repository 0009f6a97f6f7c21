#version 460
// Computes: starts [columns + 1], how many indices are below each number from 0 on, of index [rows] in the order of order [rows].
// Grid: x = ceil((columns + 1) / 256), continued along y.
// Reduction order: none; a binary search.
// Assumes: order sorts index.
#include "counts.glsl"

layout(local_size_x = 256) in;

layout(std430, binding = 1) readonly buffer Index { uint index[]; };
layout(std430, binding = 2) readonly buffer Order { uint order[]; };
layout(std430, binding = 3) writeonly buffer Starts { uint starts[]; };

ROW_PUSH

void main() {
    uint number = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256u + gl_LocalInvocationIndex;
    if (number > push.columns) {
        return;
    }
    uint first = 0u, end = batch_rows(push.rows_of, push.rows);
    while (first < end) {
        uint middle = first + (end - first) / 2u;
        if (index[order[middle]] < number) {
            first = middle + 1u;
        } else {
            end = middle;
        }
    }
    starts[number] = first;
}
