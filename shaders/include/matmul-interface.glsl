// Shared by the builds of `matmul`: their interface, and loads of either operand.
#extension GL_EXT_control_flow_attributes : require
#include "stored.glsl"

// How a tile is read. 0: neighbouring invocations along k; 1: the same, four elements at once, which start at multiples
// of four; 2: neighbouring invocations along m or n.
layout(constant_id = 3) const uint A_LOAD = 0;
layout(constant_id = 4) const uint B_LOAD = 0;

INPUT(0, a, vec4)
INPUT(1, b, vec4)
layout(std430, binding = 2) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
    uint m;
    uint n;
    uint k;
    uint batches;
    // Batch i is batch i % inner of outer batch i / inner.
    uint inner;
    // Inner batches that share one matrix of b.
    uint group;
    // Strides between rows (columns, terms, batches), in elements.
    uint a_row;
    uint a_k;
    uint a_outer;
    uint a_inner;
    uint b_column;
    uint b_k;
    uint b_outer;
    uint b_inner;
    uint y_row;
    uint y_outer;
    uint y_inner;
    float scale;
} push;

float accumulate(vec4 a, vec4 b, float sum) {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

// Row `row` of a matrix that starts at `base`, terms k .. k + 3; zeros past the last row of `rows` and the last term.
#define LOAD(LOADS, NAME, MODE, LINE, TERM)                                                                            \
    vec4 LOADS(uint base, uint row, uint k, uint rows) {                                                               \
        bool there = row < rows && k < push.k;                                                                         \
        uint at = there ? base + row * LINE + k * TERM : 0u;                                                           \
        PADDED_QUAD(NAME, MODE == 1u, TERM, push.k - 1u - k)                                                           \
        return mix(quad, vec4(0.0), bvec4(!there));                                                                    \
    }

LOAD(load_a, a, A_LOAD, push.a_row, push.a_k)
LOAD(load_b, b, B_LOAD, push.b_column, push.b_k)
