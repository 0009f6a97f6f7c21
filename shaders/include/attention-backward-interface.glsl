// The interface of attention-backward, and what it reads. A row is one of the workgroup's tile: a query, or a key with KEYS
// and VALUES; the rows that it meets are others.
#include "attention-backward-places.glsl"
#include "attention-heads.glsl"
#if defined(KEYS) || defined(VALUES)
#define BY_KEY
#endif

INPUT_HEADS(0, q)
INPUT_HEADS(1, k)
INPUT_HEADS(2, g)
// Per query its place, d of each head, and the logarithm of the sum of its weights of each head. The kernel that writes these
// reads places from a buffer of their own: they bound its loops, and WGSL has barriers in loops only where the bounds come from
// memory that the kernel does not write.
#ifdef BY_KEY
layout(std430, binding = 3) readonly buffer QueryRows { uint query_rows[]; };
#else
layout(std430, binding = 3) buffer QueryRows { uint query_rows[]; };
#endif
// As in attention-push.glsl.
layout(std430, binding = 4) readonly buffer Bias { float bias[]; };
#ifdef VALUES
layout(std430, binding = 5) readonly buffer KeyRows { uint key_rows[]; };
OUTPUT(6, dv, QUAD)
#else
INPUT_HEADS(5, v)
#ifdef KEYS
layout(std430, binding = 6) readonly buffer KeyRows { uint key_rows[]; };
OUTPUT(7, dk, QUAD)
#else
layout(std430, binding = 6) readonly buffer QueryPlaces { uint query_places[]; };
OUTPUT(7, dq, QUAD)
#endif
#endif

layout(push_constant) uniform Push {
    uint heads;
    // Query heads per key-value head.
    uint group;
    uint q_stride;
    uint q_column;
    uint k_stride;
    uint k_column;
    uint v_stride;
    uint v_column;
    float scale;
    // 0 for none, as of a window.
    float soft_cap;
    uint causal;
    uint window;
    uint global_tokens;
    uint align_end;
    // As in attention-push.glsl.
    uint reach;
    // 0 where there are no biases.
    uint bias_rows;
    // Whether the result has columns of no head.
    uint others;
} push;
#define CAUSAL (push.causal != 0u)
#define WINDOW (push.window != 0u)

#include "attention-backward-heads.glsl"

#ifdef BY_KEY
PLACE_OF(query_place, query_rows, query_fields())
PLACE_OF(row_place, key_rows, PLACES)
#else
PLACE_OF(row_place, query_places, PLACES)
#endif

// Four columns of the head of a row; zeros where `there` is false.
vec4 of_q(bool there, uint row, uint column) {
    return load_q(there, row * push.q_stride + q_column + column, column);
}

vec4 of_k(bool there, uint row, uint column) {
    return load_k(there, row * push.k_stride + k_column + column, column);
}

vec4 of_g(bool there, uint row, uint column) {
    return load_g(there, (row * push.heads + head) * HEAD_DIM + column, column);
}

#ifndef VALUES
vec4 of_v(bool there, uint row, uint column) {
    return load_v(there, row * push.v_stride + v_column + column, column);
}
#endif
