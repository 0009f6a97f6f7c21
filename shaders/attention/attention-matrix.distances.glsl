// Scores by distance on matrix cores: the terms of attention.distances.glsl, from the rows of all distances between a tile's queries
// and a block's keys. Row w of these is that of key j of the block from query i of the tile, w = j - i + TILE - 1.
UNITS(6, readonly, distances)
UNIT_OF(distances, UNIT)
EIGHTS_OF(distances, UNIT, WHOLE)

// First columns of a and b; none for the largest integer.
layout(constant_id = 9) const uint A_COLUMN = 0;
layout(constant_id = 10) const uint B_COLUMN = 0;
layout(constant_id = 11) const uint DISTANCE_COLUMNS = 64;
const bool BY_QUERY = A_COLUMN != 0xffffffffu;
const bool BY_KEY = B_COLUMN != 0xffffffffu;

// Rows of a, then of b.
const uint APART_BY = TILE + KEYS;
const uint OF_KEYS = BY_QUERY ? APART_BY : 0u;
shared uvec4 by_distance[(OF_KEYS + (BY_KEY ? APART_BY : 0u)) * STRIDE];
// Two matrices of a subgroup side by side: products of its queries, or of as many keys as a matrix has columns, with rows of the
// above. Rows start at different banks. In quads: matrices are stored at multiples of sixteen bytes.
const uint SIDE = 2u * MATRIX_N + 8u;
const uint SIDES = MATRIX_N * SIDE;
shared vec4 beside[SUBGROUPS * SIDES / 4u];

float beside_at(uint at) {
    return beside[at / 4u][at % 4u];
}

// Loads the rows for a block of keys from `at` on, for queries from position `place` on.
void load_distances(uint at, int place) {
    uint head = gl_WorkGroupID.y / push.group * HEAD_UNITS;
    for (uint i = gl_LocalInvocationIndex; i < APART_BY * QUADS; i += INVOCATIONS) {
        uint row = i / QUADS;
        uint column = i % QUADS;
        int far = clamp(int(at + row) - int(TILE - 1u) - place, -int(push.reach), int(push.reach));
        uint from = uint(far + int(push.reach)) * (DISTANCE_COLUMNS / UNIT) + head + column * QUAD_UNITS;
        if (BY_QUERY) {
            by_distance[row * STRIDE + column] = eight_of_distances(from + A_COLUMN / UNIT, 8u * column, HEAD_DIM);
        }
        if (BY_KEY) {
            by_distance[(OF_KEYS + row) * STRIDE + column] = eight_of_distances(from + B_COLUMN / UNIT, 8u * column, HEAD_DIM);
        }
    }
}

// Adds the terms of the block's keys to the scores of the subgroup's rows. Key c of a matrix's columns is at row c - r + MATRIX_M - 1
// from the first of them for row r.
void add_distances(LEFT query[SLICES]) {
    uint own = gl_SubgroupID * SIDES;
    uint from = TILE - MATRIX_M - own_row;
    [[unroll]] for (uint n = 0u; n < (BY_QUERY ? WIDE : 0u); n++) {
        // The second matrix is the first of the next columns.
        [[unroll]] for (uint m = n == 0u ? 0u : 1u; m < 2u; m++) {
            SUM part = SUM(0.0);
            [[unroll]] for (uint i = 0u; i < SLICES; i++) {
                RIGHT a;
                uint at = (from + MATRIX_N * (n + m)) * STRIDE + TERM_QUADS * i;
                coopMatLoad(a, by_distance, at, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
                part = coopMatMulAdd(query[i], a, part);
            }
            coopMatStore(part, beside, (own + MATRIX_N * ((n + m) % 2u)) / 4u, SIDE / 4u, gl_CooperativeMatrixLayoutRowMajor);
        }
        subgroupBarrier();
        [[unroll]] for (uint e = 0u; e < ELEMENTS; e++) {
            uint row = row_of(e / ROW_ELEMENTS);
            uint far = column_of(e) + MATRIX_M - 1u - row;
            score[n][e] += beside_at(own + row * SIDE + (far + MATRIX_N * n) % (2u * MATRIX_N));
        }
        subgroupBarrier();
    }
    // A negative scale has moved to the queries.
    float sign = !CHANGES && push.scale < 0.0 ? -1.0 : 1.0;
    [[unroll]] for (uint n = 0u; n < (BY_KEY ? WIDE : 0u); n++) {
        [[unroll]] for (uint first = 0u; first < MATRIX_N; first += MATRIX_M) {
            [[unroll]] for (uint m = 0u; m < 2u; m++) {
                SUM part = SUM(0.0);
                [[unroll]] for (uint i = 0u; i < SLICES; i++) {
                    LEFT key;
                    RIGHT b;
                    coopMatLoad(key, tile, (MATRIX_N * n + first) * STRIDE + TERM_QUADS * i, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                    uint at = (OF_KEYS + from + MATRIX_N * (n + m)) * STRIDE + TERM_QUADS * i;
                    coopMatLoad(b, by_distance, at, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
                    part = coopMatMulAdd(key, b, part);
                }
                coopMatStore(part, beside, (own + first * SIDE + MATRIX_N * m) / 4u, SIDE / 4u, gl_CooperativeMatrixLayoutRowMajor);
            }
        }
        subgroupBarrier();
        [[unroll]] for (uint e = 0u; e < ELEMENTS; e++) {
            uint far = column_of(e) + MATRIX_M - 1u - row_of(e / ROW_ELEMENTS);
            score[n][e] += sign * beside_at(own + column_of(e) * SIDE + far);
        }
        subgroupBarrier();
    }
}
