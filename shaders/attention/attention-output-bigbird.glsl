#version 460
// Computes: attention-output of BigBird's pattern: window, global positions, and RANDOM_BLOCKS key blocks selected by
// SEED.
// Grid: x = ceil(q_len / 64), y = heads, z = batch; 256 invocations, 64 rows of one head.
// Reduction order: one fma per key, j = 0, 1, ... kv_len - 1, from zero, of those in the pattern.
// Assumes: kv_heads divides heads; with VECTOR, kv_len and head_dim multiples of four; BLOCK is not 0.
#include "attention-output-interface.glsl"
#include "attention-window.glsl"

// Wellons' lowbias32: every bit of x affects every bit of the result.
uint scatter(uint x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

// The block of keys with index `draw` among those selected for a block of queries.
uint drawn(uint block, uint draw) {
    return scatter(SEED + scatter(block * RANDOM_BLOCKS + draw)) % ((push.kv_len + BLOCK - 1u) / BLOCK);
}

// One bit per 32 keys: whether a block selected for the tile's rows includes any of them; all keys beyond count as
// included. `agreed` because loops with barriers depend on it (shaders/README.md).
const uint BITMAP_WORDS = 128;
shared uint agreed_keys[BITMAP_WORDS];
// The blocks selected for the rows whose weights the invocation loads.
const uint ROWS_LOADED = 2;
const uint DRAWS = RANDOM_BLOCKS > 0u ? RANDOM_BLOCKS : 1u;
uint drawn_blocks[ROWS_LOADED * DRAWS];

void prepare(uint first, uint last) {
    for (uint word = gl_LocalInvocationIndex; word < BITMAP_WORDS; word += 256u) {
        agreed_keys[word] = 0u;
    }
    barrier();
    uint blocks = last / BLOCK - first / BLOCK + 1u;
    for (uint pair = gl_LocalInvocationIndex; pair < blocks * RANDOM_BLOCKS; pair += 256u) {
        uint from = drawn(first / BLOCK + pair / DRAWS, pair % DRAWS) * BLOCK;
        uint end = min(from + BLOCK, push.kv_len);
        for (uint bit = from / 32u; bit * 32u < end && bit < 32u * BITMAP_WORDS; bit++) {
            atomicOr(agreed_keys[bit / 32u], 1u << (bit % 32u));
        }
    }
    barrier();
}

void prepare_row(uint slot, uint row) {
    for (uint draw = 0u; draw < RANDOM_BLOCKS; draw++) {
        drawn_blocks[slot * DRAWS + draw] = drawn(row / BLOCK, draw);
    }
}

#define PATTERN
#define PREPARED
bool wanted(uint first, uint last, uint key, uint count) {
    uint bit = key / 32u;
    bool touched = bit >= 32u * BITMAP_WORDS || (agreed_keys[bit / 32u] >> (bit % 32u) & 1u) != 0u;
    return touched || first < GLOBAL_TOKENS || key < GLOBAL_TOKENS || window_touches(first, last, key, count);
}

bool allowed(uint slot, uint row, uint key) {
    bool there = row < GLOBAL_TOKENS || key < GLOBAL_TOKENS || in_window(row, key);
    for (uint draw = 0u; draw < RANDOM_BLOCKS; draw++) {
        there = there || drawn_blocks[slot * DRAWS + draw] == key / BLOCK;
    }
    return there;
}
#include "attention-output-tile.glsl"
