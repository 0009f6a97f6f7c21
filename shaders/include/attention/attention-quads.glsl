// Softmax of rows where four neighbouring lanes hold two whole rows of a matrix; SLICES is a constant of the shader.
#include "matrix/matrix-quads.glsl"

#define NONE uintBitsToFloat(0xff800000u)
// Of the lane's two rows: the largest score so far, and what the lane has of the sum of the weights.
float largest[2];
float total[2];

// Multiplies the rows of MATRICES by FACTORS.
#define SCALE_ROWS(MATRICES, FACTORS)                                                                                  \
    [[unroll]] for (uint i = 0u; i < SLICES; i++) {                                                                    \
        [[unroll]] for (uint e = 0u; e < 8u; e++) {                                                                    \
            MATRICES[i][e] *= FACTORS[e / 4u];                                                                         \
        }                                                                                                              \
    }
