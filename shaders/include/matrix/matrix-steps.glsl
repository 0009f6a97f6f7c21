// Part of a main function: adds the products of `steps` steps of TILE_K terms to `sum`, after the first tiles are stored.
// `fetch` loads the tiles of a step, `store` writes them to `tile`, rows of x before rows of the weight, STRIDE quads each;
// TERM_QUADS quads of a row are the terms of a matrix. A shader with other tiles defines LOAD_LEFT and LOAD_RIGHT.
#ifndef LOAD_LEFT
#define LOAD_LEFT(A, ROW, AT) coopMatLoad(A, tile, (ROW) * STRIDE + AT, STRIDE, gl_CooperativeMatrixLayoutRowMajor)
#define LOAD_RIGHT(B, ROW, AT) coopMatLoad(B, tile, (TILE_M + ROW) * STRIDE + AT, STRIDE, gl_CooperativeMatrixLayoutColumnMajor)
#endif
for (uint step = 1u; step <= steps; step++) {
    // The last step fetches and stores its own tiles again, without effect: unconditional code lets both be scheduled
    // among the multiplications. At 8192^3 on an H200 this is 18% faster than all multiplications, a barrier and the
    // stores.
    uint next = min(step, steps - 1u);
    [[unroll]] for (uint k = 0u; k < DEPTH; k++) {
        LEFT a[ROWS];
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            LOAD_LEFT(a[i], own_row + MATRIX_M * i, TERM_QUADS * k);
        }
        RIGHT b[COLUMNS];
        [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
            LOAD_RIGHT(b[j], own_column + MATRIX_N * j, TERM_QUADS * k);
        }
        if (k == 0u) {
            fetch(next);
        }
        // All subgroups have loaded their last matrices: the next tiles are stored while those are multiplied.
        if (k == DEPTH - 1u) {
            barrier();
            store(next);
        }
        [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
            [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                sum[i][j] = coopMatMulAdd(a[i], b[j], sum[i][j]);
            }
        }
    }
    barrier();
}
