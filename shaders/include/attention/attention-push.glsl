// Which rows belong together in packed attention, and the layout of its operands, in elements (in eights in
// attention-matrix).

#include "attention/attention-texts.glsl"

// First query, and first key, of each text.
layout(std430, binding = 4) readonly buffer QOffsets { uint q_offsets[]; };
layout(std430, binding = 5) readonly buffer KvOffsets { uint kv_offsets[]; };

#ifndef DISTANCES
// Added to the scores of head h of text t by distance: row (t * heads + h) mod bias_rows, of 2 reach + 1 columns.
layout(std430, binding = 6) readonly buffer Bias { float bias[]; };
#endif

layout(push_constant) uniform Push {
    // Query heads per key-value head.
    uint group;
    uint q_stride;
    uint q_column;
    uint k_stride;
    uint k_column;
    uint v_stride;
    uint v_column;
    uint y_stride;
    float scale;
    // Keys at most this far from the query's position are visible; the constant WINDOW enables this.
    uint window;
    // With a window: the first positions of a text, which see all keys and are visible to all queries.
    uint global_tokens;
    // Whether the last query is aligned with the last key; otherwise the first with the first.
    uint align_end;
    // Of biases; of dropout, which excludes them, the stream.
    uint reach;
    uint bias_rows;
    // Texts of queries per text of keys: text t uses the keys of text t / shared_by of kv_offsets.
    uint shared_by;
} push;
