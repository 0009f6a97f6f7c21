#version 460
// Computes: attention-output of Longformer's pattern: a window, and GLOBAL_TOKENS first positions that see all and are
// seen by all.
// Grid: x = ceil(q_len / 64), y = heads, z = batch; 256 invocations, 64 rows of one head.
// Reduction order: one fma per key, j = 0, 1, ... kv_len - 1, from zero, of those in the pattern.
// Assumes: kv_heads divides heads; with VECTOR, kv_len and head_dim multiples of four.
#include "attention-output-interface.glsl"
#include "attention-window.glsl"

#define PATTERN
bool wanted(uint first, uint last, uint key, uint count) {
    return first < GLOBAL_TOKENS || key < GLOBAL_TOKENS || window_touches(first, last, key, count);
}

bool allowed(uint slot, uint row, uint key) {
    return row < GLOBAL_TOKENS || key < GLOBAL_TOKENS || in_window(row, key);
}
#include "attention-output-tile.glsl"
