#version 460
// Computes: attention-output of BigBird's pattern: window, global places, and RANDOM_BLOCKS blocks of keys by SEED.
// Grid: x = ceil(q_len / 64), y = heads, z = batch; 256 invocations, 64 rows of one head.
// Reduction order: one fma a key, j = 0, 1, ... kv_len - 1, from zero, of those in the pattern.
// Assumes: kv_heads divides heads; with VECTOR, kv_len and head_dim multiples of four; BLOCK is not 0.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "attention-output-interface.glsl"
#include "attention-window.glsl"

// Wellons' lowbias32: every bit of x moves every bit of the result.
uint scatter(uint x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

// The block of keys that is drawn for a block of queries, the one numbered `draw`.
uint drawn(uint block, uint draw) {
    return scatter(SEED + scatter(block * RANDOM_BLOCKS + draw)) % ((push.kv_len + BLOCK - 1u) / BLOCK);
}

#define PATTERN
bool wanted(uint first, uint last, uint key, uint count) {
    if (first < GLOBAL_TOKENS || key < GLOBAL_TOKENS || window_touches(first, last, key, count)) {
        return true;
    }
    for (uint block = first / BLOCK; block <= last / BLOCK; block++) {
        for (uint draw = 0u; draw < RANDOM_BLOCKS; draw++) {
            uint from = drawn(block, draw) * BLOCK;
            if (from < key + count && key < from + BLOCK) {
                return true;
            }
        }
    }
    return false;
}

bool allowed(uint row, uint key) {
    bool there = row < GLOBAL_TOKENS || key < GLOBAL_TOKENS || in_window(row, key);
    for (uint draw = 0u; !there && draw < RANDOM_BLOCKS; draw++) {
        there = drawn(row / BLOCK, draw) == key / BLOCK;
    }
    return there;
}
#include "attention-output-tile.glsl"
