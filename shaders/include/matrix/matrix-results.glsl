// Part of a main function: writes RESULTS, matrices of float32, as rows of y, after the residual with ADDS. They are rounded
// once, but for WIDE.
// The result passes through shared memory, so that whole rows are read and written. Of y the
// shader has PUTS, of the residual QUADS_OF and in float16 EIGHTS_OF (units.glsl).
#ifndef PUT_QUAD
#define PUT_QUAD put_quad
#endif
uint row_units = push.n / RESULT_UNIT;
#if STORED == FLOAT16
if (!IN_FLOATS) {
    [[unroll]] for (uint part = 0u; part < BESIDE; part++) {
        uint part_column = (first_column + part * OUT_WIDTH) / RESULT_UNIT;
        if (part > 0u) {
            barrier();
        }
#ifdef ADDS
        if (RESIDUAL) {
            for (uint i = me; i < TILE_M * OUT_QUADS; i += 256u) {
                uint row = first_row + i / OUT_QUADS;
                uint unit = part_column + i % OUT_QUADS * QUAD_UNITS;
                bool there = row < rows && unit < row_units;
                tile[i / OUT_QUADS * OUT_STRIDE + i % OUT_QUADS] =
                    there ? eight_of_residual(row * row_units + unit, unit * RESULT_UNIT, push.n) : uvec4(0u);
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
        for (uint i = me; i < TILE_M * OUT_UNITS; i += 256u) {
            uint row = first_row + i / OUT_UNITS;
            uint own = i % OUT_UNITS;
            uint unit = part_column + own;
            if (row < rows && unit < row_units) {
                uvec4 quad = tile[i / OUT_UNITS * OUT_STRIDE + own / QUAD_UNITS];
                put_unit(Y_ROW(row) * row_units + unit, quad, own % QUAD_UNITS * RESULT_UNIT);
            }
        }
    }
}
#endif
if (IN_FLOATS) {
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
        for (uint i = me; i < HEIGHT * OUT_UNITS; i += 256u) {
            uint row = first_row + part * HEIGHT + i / OUT_UNITS;
            uint own = i % OUT_UNITS;
            uint unit = first_column / RESULT_UNIT + own;
            if (row < rows && unit < row_units) {
                vec4 quad = uintBitsToFloat(tile[i / OUT_UNITS * OUT_STRIDE + own / QUAD_UNITS]);
                uint first = own % QUAD_UNITS * RESULT_UNIT;
#ifdef ADDS
                if (RESIDUAL) {
                    quad += quad_of_residual(row * row_units + unit, first);
                }
#endif
                PUT_QUAD(Y_ROW(row) * row_units + unit, quad, first);
            }
        }
    }
}
