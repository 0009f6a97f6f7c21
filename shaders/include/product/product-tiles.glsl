// Tiles of two matrices in shared memory, a [TILE_M, TILE_K] and b [TILE_N, TILE_K], and the sums of their product that an
// invocation of 16 x 16 computes: of rows ty + 16 i of a's tile and tx + 16 j of b's. The shader has the function
// `accumulate` and fills the tiles, with A_LOADS and B_LOADS quads per invocation.
const uint ROWS = TILE_M / 16;
const uint COLUMNS = TILE_N / 16;
const uint QUADS = TILE_K / 4;
const uint A_LOADS = TILE_M * QUADS / 256;
const uint B_LOADS = TILE_N * QUADS / 256;
// Four consecutive k of a row are adjacent; one more quad keeps 8 neighbouring rows in different banks.
const uint STRIDE = QUADS + 1;
shared vec4 a_tile[TILE_M * STRIDE];
shared vec4 b_tile[TILE_N * STRIDE];
float sum[ROWS * COLUMNS];
// The next tiles, being loaded while the present ones are multiplied.
vec4 next_a[A_LOADS];
vec4 next_b[B_LOADS];

void begin_sums() {
    [[unroll]] for (uint i = 0u; i < ROWS * COLUMNS; i++) {
        sum[i] = 0.0;
    }
}

void multiply_tiles(uint tx, uint ty) {
    [[unroll]] for (uint q = 0u; q < QUADS; q++) {
        vec4 b[COLUMNS];
        [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
            b[j] = b_tile[(tx + 16u * j) * STRIDE + q];
        }
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            vec4 a = a_tile[(ty + 16u * i) * STRIDE + q];
            [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
                sum[i * COLUMNS + j] = accumulate(a, b[j], sum[i * COLUMNS + j]);
            }
        }
    }
}
