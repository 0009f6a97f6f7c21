// Part of a main function: writes RESULTS, matrices of float32, as rows of y, after the residual with ADDS. They are rounded
// once, but for WIDE.
// The result passes through shared memory, so that whole rows are read and written.
#ifndef STORE_FOUR
#define STORE_FOUR(AT, FOUR) y_4[AT] = narrow(FOUR);
#endif
#if STORED == FLOAT16
if (!IN_FLOATS) {
    uint row_quads = push.n / 8u;
    [[unroll]] for (uint part = 0u; part < BESIDE; part++) {
        uint part_column = (first_column + part * OUT_WIDTH) / 8u;
        if (part > 0u) {
            barrier();
        }
#ifdef ADDS
        if (RESIDUAL) {
            for (uint i = me; i < TILE_M * OUT_QUADS; i += 256u) {
                uint row = first_row + i / OUT_QUADS;
                uint column = part_column + i % OUT_QUADS;
                bool there = row < rows && column < row_quads;
                tile[i / OUT_QUADS * OUT_STRIDE + i % OUT_QUADS] = there ? residual[row * row_quads + column] : uvec4(0u);
            }
            barrier();
        }
#endif
        if (own_part == part) {
            [[unroll]] for (uint j = 0u; j < OUT_COLUMNS; j++) {
                [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                    uint at = (own_row + MATRIX_M * i) * OUT_STRIDE + MATRIX_N / 8u * j;
#ifdef ADDS
                    if (RESIDUAL) {
                        HALF added;
                        coopMatLoad(added, tile, at, OUT_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                        RESULTS[i][j] = RESULTS[i][j] + FLOATS(added);
                    }
#endif
                    coopMatStore(HALF(RESULTS[i][j]), tile, at, OUT_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                }
            }
        }
        barrier();
        for (uint i = me; i < TILE_M * OUT_QUADS; i += 256u) {
            uint row = first_row + i / OUT_QUADS;
            uint column = part_column + i % OUT_QUADS;
            if (row < rows && column < row_quads) {
                y[Y_ROW(row) * row_quads + column] = tile[i / OUT_QUADS * OUT_STRIDE + i % OUT_QUADS];
            }
        }
    }
}
#endif
if (IN_FLOATS) {
    uint row_quads = push.n / 4u;
    [[unroll]] for (uint part = 0u; part < DOWN; part++) {
        if (part > 0u) {
            barrier();
        }
        if (own_row / HEIGHT == part) {
            [[unroll]] for (uint j = 0u; j < OUT_COLUMNS; j++) {
                [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                    uint at = MATRIX_M * i * OUT_STRIDE + own_part * (OUT_WIDTH / 4u) + MATRIX_N / 4u * j;
                    coopMatStore(RESULTS[i][j], tile, at, OUT_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                }
            }
        }
        barrier();
        for (uint i = me; i < HEIGHT * OUT_QUADS; i += 256u) {
            uint row = first_row + part * HEIGHT + i / OUT_QUADS;
            uint column = first_column / 4u + i % OUT_QUADS;
            if (row < rows && column < row_quads) {
                vec4 quad = uintBitsToFloat(tile[i / OUT_QUADS * OUT_STRIDE + i % OUT_QUADS]);
#ifdef ADDS
                if (RESIDUAL) {
                    quad += wide(residual_4[row * row_quads + column]);
                }
#endif
                STORE_FOUR(Y_ROW(row) * row_quads + column, quad)
            }
        }
    }
}
