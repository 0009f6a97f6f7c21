// Tiles of linear-matrix: `fetch` loads those of a step into registers, `store` writes them to shared memory, from
// which they are multiplied. The sizes are constants of the shader.

// The tiles of x and of the weight; after the sums, one half of the result's columns at a time.
shared uvec4 tile[OPERANDS > RESULT ? OPERANDS : RESULT];
#ifdef BIASED
shared float bias_tile[TILE_N];
#endif
#ifdef FOLDED
shared float means[TILE_M];
shared float scales[TILE_M];
shared float column_s[TILE_N];
shared float column_c[TILE_N];
// g of the stored step and of the next: read only after the barrier, since loading it into registers earlier is 2%
// slower on an H200.
shared uvec4 gain_tile[2u * QUADS];
#endif

// Start indices of this invocation's quads, and the quads of the next step, which stay here while a step is multiplied.
uint x_at[X_LOADS];
uint w_at[W_LOADS];
uvec4 x_next[X_LOADS];
uvec4 w_next[W_LOADS];
#ifdef FOLDED
uvec4 gain_next;
#endif

// The row of the weight's tile that load i fills.
uint w_row(uint i) {
    return gl_LocalInvocationIndex / QUADS + i * STEP;
}

void fetch(uint step) {
    [[unroll]] for (uint i = 0u; i < X_LOADS; i++) {
        x_next[i] = x[x_at[i] + step * QUADS];
    }
    [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
        w_next[i] = load_weight(w_row(i), w_at[i] + step * QUADS);
    }
#ifdef FOLDED
    uint following = min((step + 1u) * QUADS, push.k / 8u - QUADS);
    gain_next = column_gains[push.n / 2u + following + gl_LocalInvocationIndex % QUADS];
#endif
}

void store(uint step) {
#ifdef FOLDED
    uvec4 gain = gain_tile[step % 2u * QUADS + gl_LocalInvocationIndex % QUADS];
    if (gl_LocalInvocationIndex < QUADS) {
        gain_tile[(step + 1u) % 2u * QUADS + gl_LocalInvocationIndex] = gain_next;
    }
#endif
    uint at = gl_LocalInvocationIndex / QUADS * STRIDE + gl_LocalInvocationIndex % QUADS;
    uint row = gl_LocalInvocationIndex / QUADS;
    [[unroll]] for (uint i = 0u; i < X_LOADS; i++) {
        if (TILE_M % STEP == 0u || row + i * STEP < TILE_M) {
            tile[at + i * STEP * STRIDE] = x_next[i];
        }
    }
    [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
        if (TILE_N % STEP == 0u || row + i * STEP < TILE_N) {
#ifdef FOLDED
            w_next[i] = scaled(w_next[i], gain);
#endif
            tile[at + (TILE_M + i * STEP) * STRIDE] = w_next[i];
        }
    }
}
