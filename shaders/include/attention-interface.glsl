// The interface of attention, and its loads. HEAD_DIM and VECTOR are constants of the shader.
#include "counts.glsl"

layout(std430, binding = 1) readonly buffer Q { float q[]; };
layout(std430, binding = 1) readonly buffer Q4 { QUAD q_4[]; };
layout(std430, binding = 2) readonly buffer K { float k[]; };
layout(std430, binding = 2) readonly buffer K4 { QUAD k_4[]; };
layout(std430, binding = 3) readonly buffer V { float v[]; };
layout(std430, binding = 3) readonly buffer V4 { QUAD v_4[]; };
layout(std430, binding = 7) writeonly buffer Y { float y[]; };
layout(std430, binding = 7) writeonly buffer Y4 { QUAD y_4[]; };

#include "attention-push.glsl"

// Four columns of a head from `column`, at element `at`; zeros past the head's end and where `there` is false. Loads
// are unconditional, at a valid index: branches around them cost more than they save.
#define LOAD(NAME, SCALARS, VECTORS)                                                                           \
    vec4 NAME(bool there, uint at, uint column) {                                                              \
        there = there && column < HEAD_DIM;                                                                    \
        at = there ? at : 0u;                                                                                  \
        vec4 quad;                                                                                             \
        if (VECTOR) {                                                                                          \
            quad = wide(VECTORS[at / 4u]);                                                                     \
        } else {                                                                                               \
            uint most = there ? HEAD_DIM - 1u - column : 0u;                                                   \
            quad = vec4(SCALARS[at], SCALARS[at + min(1u, most)], SCALARS[at + min(2u, most)], SCALARS[at + min(3u, most)]); \
            quad = mix(quad, vec4(0.0), greaterThan(uvec4(0u, 1u, 2u, 3u), uvec4(most)));                      \
        }                                                                                                      \
        return mix(quad, vec4(0.0), bvec4(!there));                                                            \
    }
LOAD(load_q, q, q_4)
LOAD(load_k, k, k_4)
LOAD(load_v, v, v_4)

// The text of a token: the last nonempty one that starts at or before it.
uint text_of(uint token) {
    uint low = 0u;
    uint high = counts.texts;
    while (high - low > 1u) {
        uint middle = (low + high) / 2u;
        if (q_offsets[middle] <= token) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}
