#version 460
// Computes: y[b, i, h] = sum_j weights[b, h, i, j] values[b, j, h * kv_heads / heads], for any weights.
// Grid: x = ceil(q_len / 64), y = heads, z = batch; 256 invocations, 64 rows of one head.
// Reduction order: one fma per key, j = 0, 1, ... kv_len - 1, from zero.
// Assumes: kv_heads divides heads; with VECTOR, kv_len and head_dim multiples of four.
#include "attention-output-interface.glsl"
#include "attention-output-tile.glsl"
