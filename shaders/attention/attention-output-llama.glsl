#version 460
// Computes: attention-output of grouped and multi-query heads: the heads that share values are one tall matrix.
// Grid: x = ceil(q_len / 64), y = heads, z = batch; 256 invocations, 128 rows of the group; surplus workgroups exit.
// Reduction order: one fma per key, j = 0, 1, ... kv_len - 1, from zero.
// Assumes: kv_heads divides heads; with VECTOR, kv_len and head_dim multiples of four.
#include "attention-output-interface.glsl"
#define GROUPED
#include "attention-output-tile.glsl"
