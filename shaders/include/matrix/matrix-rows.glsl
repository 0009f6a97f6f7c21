// Matrices of which ROW_LANES neighbouring lanes hold whole rows, in sums as in left operands (matrix-layout.glsl): element e of lane
// l is in row l / ROW_LANES + (LANES / ROW_LANES) (e / ROW_ELEMENTS), where it is element i = e % ROW_ELEMENTS of the lane, and in
// column RUN (l % ROW_LANES) + i % RUN + RUN ROW_LANES (i / RUN). Sums and left operands have the same shape. LANES is the
// shader's.
#ifndef ROW_LANES
layout(constant_id = 23) const uint ROW_LANES = 4;
layout(constant_id = 24) const uint RUN = 2;
#endif
const uint ELEMENTS = MATRIX_M * MATRIX_N / LANES;
const uint ROW_ELEMENTS = MATRIX_N / ROW_LANES;
// Rows of a lane, and of a matrix before a lane's next.
const uint LANE_ROWS = ELEMENTS / ROW_ELEMENTS;
const uint APART = LANES / ROW_LANES;

uint row_of(uint h) {
    return gl_SubgroupInvocationID / ROW_LANES + APART * h;
}

uint column_of(uint e) {
    uint i = e % ROW_ELEMENTS;
    return gl_SubgroupInvocationID % ROW_LANES * RUN + i % RUN + i / RUN * (RUN * ROW_LANES);
}

// Elements e that start pairs of neighbouring columns, which are of one lane or of this one and the next.
const uint PAIR = RUN > 1u ? 2u : 1u;

bool has_pair() {
    return RUN > 1u || gl_SubgroupInvocationID % 2u == 0u;
}

#define PAIR_OF(MATRIX, E) \
    vec2(MATRIX[E], RUN > 1u ? MATRIX[E + PAIR - 1u] : subgroupShuffleXor(MATRIX[E], 1u))

// Joins what the lanes of a row have, at most 16. Unrolled in the module: where a driver finds the loop's end by itself, arrays of
// a lane's rows go to memory.
#define OVER_ROW(JOIN, VALUE)                                                                                          \
    [[unroll]] for (uint bits = 0u; bits < 4u; bits++) {                                                               \
        if (1u << bits < ROW_LANES) {                                                                                  \
            VALUE = JOIN(VALUE, subgroupShuffleXor(VALUE, 1u << bits));                                                \
        }                                                                                                              \
    }
#define PLUS(A, B) ((A) + (B))
