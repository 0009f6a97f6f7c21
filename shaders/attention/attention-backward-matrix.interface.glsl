// The interface of attention-backward-matrix. A row is one of the workgroup's tile: a query, or a key with KEYS; the rows that
// it meets are others. The first operand is the one whose product with a row is a score: keys of a query, queries of a key; the
// second is the one whose product is its gradient: values, and gradients of results.

// Eight elements each.
layout(std430, binding = 0) readonly buffer Q { uvec4 q[]; };
layout(std430, binding = 1) readonly buffer K { uvec4 k[]; };
layout(std430, binding = 2) readonly buffer G { uvec4 g[]; };
layout(std430, binding = 4) readonly buffer V { uvec4 v[]; };
// As in attention-backward.glsl.
#ifdef KEYS
layout(std430, binding = 3) readonly buffer QueryRows { uint query_rows[]; };
layout(std430, binding = 5) readonly buffer KeyRows { uint key_rows[]; };
layout(std430, binding = 6) writeonly buffer DK { uvec2 dk[]; };
layout(std430, binding = 7) writeonly buffer DV { uvec2 dv[]; };
#else
layout(std430, binding = 3) buffer QueryRows { uint query_rows[]; };
layout(std430, binding = 5) writeonly buffer DQ { uvec2 dq[]; };
#endif

#include "attention/attention-backward-heads.glsl"

#ifdef KEYS
PLACE_OF(row_place, key_rows, PLACES)
#else
PLACE_OF(row_place, query_rows, query_fields())
#endif

// Eight columns of the head of a row, which starts at element AT; zeros past its last.
#define OF_HEAD(NAME, AT)                                                                                              \
    uvec4 of_##NAME(uint row, uint eighth) {                                                                           \
        bool there = HEAD_DIM % MATRIX_N == 0u || eighth < HEAD_DIM / 8u;                                              \
        return mix(uvec4(0u), NAME[(AT) / 8u + (there ? eighth : 0u)], bvec4(there));                                  \
    }
OF_HEAD(q, row * push.q_stride + q_column)
OF_HEAD(k, row * push.k_stride + k_column)
OF_HEAD(v, row * push.v_stride + v_column)
OF_HEAD(g, (row * push.heads + head) * HEAD_DIM)
