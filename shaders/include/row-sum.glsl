// Rows shared among LANES consecutive invocations (a power of two), 256 / LANES rows per workgroup. Needs no subgroup
// operation, so that any subgroup size gives the same bits. `src/backend/vulkan/kernels/rows.rs` mirrors the indices.
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint LANES = 32;

shared float partial[256];

// Row of this invocation, and its lane in the row.
uint own_row() {
    return gl_WorkGroupID.x * (256u / LANES) + gl_LocalInvocationIndex / LANES;
}

uint lane() {
    return gl_LocalInvocationIndex % LANES;
}

// The sum of `value` over a row's lanes, as a tree: lane i adds lane i + LANES/2, then i + LANES/4, ... Must be called
// by every invocation of the workgroup.
float row_sum(float value) {
    uint slot = gl_LocalInvocationIndex;
    barrier();
    partial[slot] = value;
    barrier();
    for (uint reach = LANES / 2u; reach > 0u; reach /= 2u) {
        if (lane() < reach) {
            partial[slot] += partial[slot + reach];
        }
        barrier();
    }
    return partial[slot - lane()];
}
