// The sums of the subgroups of a workgroup, whose results pass through `tile` in float32, OUT_ROWS rows of the tile at a time.

// The invocation's number, of which those of a subgroup are neighbours, and its subgroup's first row and column.
uint me, own_row, own_column;
SUM sum[ROWS][COLUMNS];

void begin() {
    me = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    own_row = gl_SubgroupID % DOWN * HEIGHT;
    own_column = gl_SubgroupID / DOWN * WIDTH;
}

// Moves the sums of rows part * OUT_ROWS .. (part + 1) * OUT_ROWS - 1 of the tile to shared memory.
void put(uint part) {
    if (part > 0u) {
        barrier();
    }
    if (own_row / OUT_ROWS == part) {
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
                uint at = (own_row % OUT_ROWS + MATRIX_M * i) * OUT_STRIDE + (own_column + MATRIX_N * j) / 4u;
                coopMatStore(sum[i][j], tile, at, OUT_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            }
        }
    }
    barrier();
}
