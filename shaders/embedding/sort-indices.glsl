#version 460
// Computes: order [rows], the places of index [rows] sorted by index, those of one index in ascending order; indices from
// `columns` on are equal.
// Grid: x = ceil(rows / 256); an invocation counts the places before its own.
// Reduction order: sums of integers.
// Assumes: columns below 2^32 - 1.
#include "counts.glsl"

layout(local_size_x = 256) in;

layout(std430, binding = 1) readonly buffer Index { uint index[]; };
layout(std430, binding = 2) writeonly buffer Order { uint order[]; };

layout(push_constant) uniform Push {
    ROW_MEMBERS
} push;

// The indices of a block of places; behind the last place, larger than any.
shared uint block_indices[256];

void main() {
    uint me = gl_LocalInvocationIndex;
    uint rows = batch_rows(push.rows_of, push.rows);
    uint place = gl_WorkGroupID.x * 256u + me;
    uint own = min(index[min(place, rows - 1u)], push.columns);
    uint before = 0u;
    for (uint block = 0u; block < rows; block += 256u) {
        uint other = min(index[min(block + me, rows - 1u)], push.columns);
        barrier();
        block_indices[me] = block + me < rows ? other : 0xffffffffu;
        barrier();
        for (uint i = 0u; i < 256u; i++) {
            uint next = block_indices[i];
            before += uint(next < own || (next == own && block + i < place));
        }
    }
    if (place < rows) {
        order[before] = place;
    }
}
