// Softmax of rows that neighbouring lanes hold (matrix-rows.glsl); SLICES is a constant of the shader.
#include "matrix/matrix-rows.glsl"

#define NONE uintBitsToFloat(0xff800000u)
// Of the lane's rows: the largest score so far, and what the lane has of the sum of the weights.
float largest[LANE_ROWS];
float total[LANE_ROWS];

// Multiplies the rows of MATRICES by FACTORS.
#define SCALE_ROWS(MATRICES, FACTORS)                                                                                  \
    [[unroll]] for (uint i = 0u; i < SLICES; i++) {                                                                    \
        [[unroll]] for (uint e = 0u; e < ELEMENTS; e++) {                                                              \
            MATRICES[i][e] *= FACTORS[e / ROW_ELEMENTS];                                                               \
        }                                                                                                              \
    }

// Whether a number of some row of the subgroup is not ONE.
#define ANY_ROW(NUMBERS, ONE, FOUND)                                                                                   \
    bool FOUND = false;                                                                                                \
    [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {                                                                 \
        FOUND = FOUND || NUMBERS[h] != ONE;                                                                            \
    }                                                                                                                  \
    FOUND = subgroupAny(FOUND);
