// Whose rows belong together in packed attention, and how its operands lie: counted in elements, in attention-matrix in eights.

// First query, and first key, of each text.
layout(std430, binding = 4) readonly buffer QOffsets { uint q_offsets[]; };
layout(std430, binding = 5) readonly buffer KvOffsets { uint kv_offsets[]; };

layout(push_constant) uniform Push {
    // Query heads to a key-value head.
    uint group;
    uint q_stride;
    uint q_column;
    uint k_stride;
    uint k_column;
    uint v_stride;
    uint v_column;
    uint y_stride;
    float scale;
} push;
