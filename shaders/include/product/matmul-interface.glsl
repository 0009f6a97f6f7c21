// Shared by the builds of `matmul`: their interface, and loads of either operand.
#extension GL_EXT_control_flow_attributes : require
#include "numbers/terms.glsl"
#include "stored.glsl"
#include "product/matmul-push.glsl"

INPUT(0, a, vec4)
INPUT(1, b, vec4)
OUTPUT(2, y, vec4)

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
