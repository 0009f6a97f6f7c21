// Rows shared among LANES consecutive invocations, a constant of the shader: 256 / LANES rows per workgroup.

layout(local_size_x = 256) in;

// Few lanes are compared at once, more in groups of NEAR, then the groups.
const uint NEAR = LANES < 32u ? 1u : (LANES == 32u ? 4u : 16u);
const uint GROUPS = LANES / NEAR;
// Numbers of lanes, then of groups of lanes where there are such.
shared vec2 of_lanes[NEAR == 1u ? 256u : 512u];

// Row of this invocation. Rows that do not fit the grid's x axis continue along y.
uint own_row() {
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    return group * (256u / LANES) + gl_LocalInvocationIndex / LANES;
}

uint lane() {
    return gl_LocalInvocationIndex % LANES;
}

float largest_of(vec4 quad) {
    return max(max(quad.x, quad.y), max(quad.z, quad.w));
}

// The maxima of two values over a row's lanes; of a NaN and a number, either may be returned. Few lanes need a barrier before a
// second call.
vec2 largest(vec2 value) {
    uint slot = gl_LocalInvocationIndex;
    uint first = slot - lane();
    of_lanes[slot] = value;
    barrier();
    if (NEAR == 1u) {
        for (uint i = 0u; i < GROUPS; i++) {
            value = max(value, of_lanes[first + i]);
        }
        return value;
    }
    for (uint i = 0u; i < NEAR; i++) {
        value = max(value, of_lanes[first + lane() % GROUPS + i * GROUPS]);
    }
    of_lanes[256u + slot] = value;
    barrier();
    for (uint i = 0u; i < GROUPS; i++) {
        value = max(value, of_lanes[256u + first + i]);
    }
    return value;
}
