#version 460
// Computes: attention-output of cross-attention: few queries of a decoder, many keys of an encoder.
// Grid: x = ceil(q_len / 64), y = heads, z = batch; 256 invocations, 64 rows of one head; absent rows are not computed.
// Reduction order: one fma per key, j = 0, 1, ... kv_len - 1, from zero.
// Assumes: kv_heads divides heads; with VECTOR, kv_len and head_dim multiples of four.
#include "attention-output-interface.glsl"
#define FEW_ROWS
#include "attention-output-tile.glsl"
