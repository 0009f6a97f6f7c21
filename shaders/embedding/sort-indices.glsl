#version 460
// Computes: order [rows], the places of index [rows] sorted by index, those of one index in ascending order; indices from
// `columns` on are equal.
// Grid: x = ceil(rows / 32), continued along y; eight invocations count the places before one.
// Reduction order: sums of integers.
// Assumes: columns below 2^32 - 1.
#include "counts.glsl"

layout(local_size_x = 256) in;

layout(std430, binding = 1) readonly buffer Index { uint index[]; };
layout(std430, binding = 2) writeonly buffer Order { uint order[]; };

ROW_PUSH

// Invocations that share a place.
#define LANES 8u
// The indices of a block of places, by fours, behind the last place larger than any; then what each invocation has counted.
shared uvec4 block_indices[64];

void main() {
    uint me = gl_LocalInvocationIndex, lane = me % LANES;
    uint rows = batch_rows(push.rows_of, push.rows);
    uint place = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * (256u / LANES) + me / LANES;
    uint own = min(index[min(place, rows - 1u)], push.columns);
    uint before = 0u;
    for (uint block = 0u; block < rows; block += 256u) {
        uint other = min(index[min(block + me, rows - 1u)], push.columns);
        barrier();
        block_indices[me / 4u][me % 4u] = block + me < rows ? other : 0xffffffffu;
        barrier();
        // Equal indices count if their places come first.
        for (uint i = lane; i < 64u; i += LANES) {
            uvec4 first = uvec4(lessThan(block + 4u * i + uvec4(0u, 1u, 2u, 3u), uvec4(place)));
            uvec4 least = uvec4(lessThan(block_indices[i], own + first));
            before += (least.x + least.y) + (least.z + least.w);
        }
    }
    barrier();
    block_indices[me / 4u][me % 4u] = before;
    barrier();
    if (lane == 0u && place < rows) {
        uvec4 sums = block_indices[me / 4u] + block_indices[me / 4u + 1u];
        order[(sums.x + sums.y) + (sums.z + sums.w)] = place;
    }
}
