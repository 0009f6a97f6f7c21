#version 460
// Computes: order [rows, TOP_K], the places of chosen [rows, TOP_K] sorted by expert, those of one expert in ascending
// order, and starts [EXPERTS + 1], where those of each expert begin, and their number.
// Grid: x = blocks, ceil(rows / 256), continued along z, y = EXPERTS: a workgroup places one expert's rows of a block, whose numbers of
// places of each expert are in counts_of_blocks [blocks, EXPERTS].
// Reduction order: sums of integers.
// Assumes: the experts of a row differ.
//# numerics = ["run", "everywhere"]
#include "counts.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint EXPERTS = 8;
layout(constant_id = 1) const uint TOP_K = 2;

layout(std430, binding = 1) readonly buffer Chosen { uint chosen[]; };
layout(std430, binding = 2) readonly buffer CountsOfBlocks { uint counts_of_blocks[]; };
layout(std430, binding = 3) writeonly buffer Order { uint order[]; };
layout(std430, binding = 4) writeonly buffer Starts { uint starts[]; };

ROW_PUSH

// Places before this expert's in this block, in parts, and whether a row is this expert's: then sums over invocations.
shared uvec2 sums[256];

void main() {
    uint me = gl_LocalInvocationIndex;
    uint rows = batch_rows(push.rows_of, push.rows);
    uint block = group_x(), expert = gl_WorkGroupID.y;
    uint blocks = (rows + 255u) / 256u;
    uvec2 sum = uvec2(0u);
    for (uint i = me; i < blocks * EXPERTS; i += 256u) {
        uint other = i % EXPERTS;
        bool before = other < expert || (other == expert && i / EXPERTS < block);
        sum.x += before ? counts_of_blocks[i] : 0u;
    }
    uint row = block * 256u + me;
    uint own = 0u;
    if (row < rows) {
        for (uint place = row * TOP_K; place < (row + 1u) * TOP_K; place++) {
            if (chosen[place] == expert) {
                sum.y = 1u;
                own = place;
            }
        }
    }
    bool is_own = sum.y > 0u;
    sums[me] = sum;
    for (uint step = 1u; step < 256u; step *= 2u) {
        barrier();
        uvec2 other = me < step ? uvec2(0u) : sums[me - step];
        barrier();
        sum += other;
        sums[me] = sum;
    }
    barrier();
    uint first = sums[255].x;
    if (is_own) {
        order[first + sum.y - 1u] = own;
    }
    if (block == 0u && me == 0u) {
        starts[expert] = first;
        if (expert == 0u) {
            starts[EXPERTS] = rows * TOP_K;
        }
    }
}
