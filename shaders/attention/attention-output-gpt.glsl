#version 460
// Computes: attention-output of causal weights: keys after the query's own position count as zero and are not read.
// Grid: x = ceil(q_len / 64), y = heads, z = batch; 256 invocations, 64 rows of one head.
// Reduction order: one fma per key, j = 0, 1, ... kv_len - 1, from zero, up to the diagonal.
// Assumes: kv_heads divides heads; with VECTOR, kv_len and head_dim multiples of four.
#include "attention-output-interface.glsl"

#define PATTERN
bool wanted(uint first, uint last, uint key, uint count) {
    return key <= last;
}

bool allowed(uint slot, uint row, uint key) {
    return key <= row;
}
#include "attention-output-tile.glsl"
