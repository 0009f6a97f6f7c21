#version 460
// Computes: attention-output of local attention: keys farther than WINDOW count as zero and are not read.
// Grid: x = ceil(q_len / 64), y = heads, z = batch; 256 invocations, 64 rows of one head.
// Reduction order: one fma per key, j = 0, 1, ... kv_len - 1, from zero, within the window.
// Assumes: kv_heads divides heads; with VECTOR, kv_len and head_dim multiples of four.
#include "attention-output-interface.glsl"
#include "attention-window.glsl"

#define PATTERN
bool wanted(uint first, uint last, uint key, uint count) {
    return window_touches(first, last, key, count);
}

bool allowed(uint slot, uint row, uint key) {
    return in_window(row, key);
}
#include "attention-output-tile.glsl"
