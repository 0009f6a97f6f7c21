// The single interface of all attention-output shaders, grilly's own and users'.
//
// y[b, i, h] = sum over j of weights[b, h, i, j] * values[b, j, h * kv_heads / heads]
// weights [batch, heads, q_len, kv_len], values [batch, kv_len, kv_heads, head_dim], y [batch, q_len, heads, head_dim]
//
// Grid: x = ceil(q_len / 64), y = heads, z = batch. A workgroup of any size computes 64 rows of one head, or the
// workgroups of several heads divide those heads' rows in any way.

// Whether kv_len and head_dim are multiples of four.
layout(constant_id = 0) const bool VECTOR = false;
// Only keys at most this far from the query's own position count; 0 for any distance.
layout(constant_id = 1) const uint WINDOW = 0;
// The first positions of the text, which see all keys and are visible to all queries.
layout(constant_id = 2) const uint GLOBAL_TOKENS = 0;
// Number of key blocks that SEED selects for each block of queries, and the positions per block.
layout(constant_id = 3) const uint RANDOM_BLOCKS = 0;
layout(constant_id = 4) const uint BLOCK = 64;
layout(constant_id = 5) const uint SEED = 0;
// Columns computed at once: 32, 64 or 128.
layout(constant_id = 6) const uint TILE_COLUMNS = 64;

layout(std430, binding = 0) readonly buffer Weights { float weights[]; };
layout(std430, binding = 0) readonly buffer Weights4 { vec4 weights_4[]; };
layout(std430, binding = 1) readonly buffer Values { float values[]; };
layout(std430, binding = 1) readonly buffer Values4 { vec4 values_4[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };
layout(std430, binding = 2) writeonly buffer Y4 { vec4 y_4[]; };

layout(push_constant) uniform Push {
    uint batch;
    uint heads;
    uint kv_heads;
    uint q_len;
    uint kv_len;
    uint head_dim;
} push;
