// The tiles of x and of the weight in shared memory, QUADS of each row per step, from which matrix-steps.glsl multiplies them.
// After subgroup-tiles.glsl, and RESULT, the quads of results.

// Quads of a row in shared memory, one more so that rows start at different banks; where a matrix has half a quad of a row, each
// half has its own.
const uint STRIDE = (HALF_QUADS ? 2u * QUADS : QUADS) + 1u;
const uint OPERANDS = (TILE_M + TILE_N) * STRIDE;
// Quads that an invocation loads per step, and the rows between them.
const uint X_LOADS = (TILE_M * QUADS + 255u) / 256u;
const uint W_LOADS = (TILE_N * QUADS + 255u) / 256u;
const uint STEP = 256u / QUADS;

// The tiles of x and of the weight; after the sums, results.
shared uvec4 tile[OPERANDS > RESULT ? OPERANDS : RESULT];
// Start indices of this invocation's quads, and the quads of the next step, which stay here while a step is multiplied.
uint x_at[X_LOADS];
uint w_at[W_LOADS];
uvec4 x_next[X_LOADS];
uvec4 w_next[W_LOADS];
// The workgroup's tile, and the end of the rows.
uint first_row, first_column, rows;

void store_quad(uint at, uvec4 quad) {
    tile[at] = quad;
    if (HALF_QUADS) {
        tile[at + 1u] = quad.zwzw;
    }
}

// Writes the quads of the next step to the tiles.
void store_tiles() {
    uint row = gl_LocalInvocationIndex / QUADS;
    uint at = row * STRIDE + (HALF_QUADS ? 2u : 1u) * (gl_LocalInvocationIndex % QUADS);
    [[unroll]] for (uint i = 0u; i < X_LOADS; i++) {
        if (TILE_M % STEP == 0u || row + i * STEP < TILE_M) {
            store_quad(at + i * STEP * STRIDE, x_next[i]);
        }
    }
    [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
        if (TILE_N % STEP == 0u || row + i * STEP < TILE_N) {
            store_quad(at + (TILE_M + i * STEP) * STRIDE, w_next[i]);
        }
    }
}
