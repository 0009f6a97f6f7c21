// Blocks of keys and values of attention-split that each workgroup splits. After attention-split.blocks.glsl.

// Neighbouring invocations that load a row, some of them idle, and the rows loaded at once.
const uint LOADERS = EIGHTS <= 2u ? 2u : EIGHTS <= 4u ? 4u : EIGHTS <= 8u ? 8u : EIGHTS <= 16u ? 16u : 32u;
const uint STEP = INVOCATIONS / LOADERS;
// Rows of a block that an invocation loads, and its numbers of the next.
const uint LOADS = (KEYS + STEP - 1u) / STEP;
const bool AHEAD = true;
vec4 next_keys[LOADS][2];
vec4 next_values[LOADS][2];

// Splits the row of which this invocation has eight numbers into `slot` and `slot + low` of the tile; returns the inverse of
// its factor, or NaN.
float keep(vec4 numbers[2], uint slot, uint low, bool there) {
    uint top = largest_of(numbers);
    [[unroll]] for (uint reach = 1u; reach < LOADERS; reach *= 2u) {
        top = max(top, subgroupShuffleXor(top, reach));
    }
    Fit fit = fit_of(top);
    if (is_plain(fit)) {
        numbers = vec4[2](vec4(0.0), vec4(0.0));
    }
    if (there) {
        split(numbers, scale_of(fit), tile[slot], tile[slot + low]);
    }
    return unscale(fit);
}

void load_queries() {
    uint eighth = gl_LocalInvocationIndex % LOADERS;
    for (uint row = gl_LocalInvocationIndex / LOADERS; row < TILE; row += STEP) {
        bool there = eighth < EIGHTS;
        uint column = 8u * (there ? eighth : 0u);
        uint at = min(first + row, last - 1u) * push.q_stride + q_column + column / UNIT;
        vec4 numbers[2] = vec4[2](four_of_q(at, column, HEAD_DIM), four_of_q(at + QUAD_UNITS, column + 4u, HEAD_DIM));
        float factor = keep(numbers, row * STRIDE + eighth, LOW_QUERIES, there);
        if (eighth == 0u) {
            query_factors[row] = factor;
        }
    }
}

// Loads the invocation's numbers of keys at .. at + KEYS - 1 of the text; zeros past its last key, so that whatever is stored
// there has no effect.
void fetch(uint at) {
    uint eighth = min(gl_LocalInvocationIndex % LOADERS, EIGHTS - 1u);
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint row = gl_LocalInvocationIndex / LOADERS + i * STEP;
        bool inside = at + row < key_count && row < KEYS;
        uint place = key_first + (inside ? at + row : key_count - 1u);
        uint k_at = place * push.k_stride + k_column;
        uint v_at = place * push.v_stride + v_column;
        [[unroll]] for (uint h = 0u; h < 2u; h++) {
            uint column = 8u * eighth + 4u * h;
            next_keys[i][h] = mix(vec4(0.0), four_of_k(k_at + column / UNIT, column, HEAD_DIM), bvec4(inside));
            next_values[i][h] = mix(vec4(0.0), four_of_v(v_at + column / UNIT, column, HEAD_DIM), bvec4(inside));
        }
    }
}

// Splits them into shared memory.
void store(uint at) {
    uint eighth = gl_LocalInvocationIndex % LOADERS;
    bool there = eighth < EIGHTS;
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint row = gl_LocalInvocationIndex / LOADERS + i * STEP;
        if (row < KEYS) {
            float key = keep(next_keys[i], row * STRIDE + eighth, LOW, there);
            float value = keep(next_values[i], VALUES + row * STRIDE + eighth, LOW, there);
            if (eighth == 0u) {
                key_factors[row] = key;
                value_factors[row] = value;
                if (is_nan(key) || is_nan(value)) {
                    tainted = at + 1u;
                }
            }
        }
    }
}
