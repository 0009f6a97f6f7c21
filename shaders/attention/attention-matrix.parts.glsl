// Scores of rows that several subgroups share, each of which has the terms of a part of the columns.

// Quads of a row of sums, of a matrix of them, and of all subgroups' scores if they are joined.
const uint SUM_STRIDE = MATRIX_N / 4u;
const uint SUM_QUADS = MATRIX_M * SUM_STRIDE;
const uint JOINED = PARTS > 1u ? SUBGROUPS * WIDE * SUM_QUADS : 0u;

// Joins the parts' terms of the scores in their order, through the first JOINED quads of MEMORY, which hold the block's keys until then.
// All subgroups of a workgroup come here.
#define JOIN_PARTS(MEMORY)                                                                                             \
    barrier();                                                                                                         \
    [[unroll]] for (uint n = 0u; n < WIDE; n++) {                                                                      \
        uint own = SUM_QUADS * (WIDE * gl_SubgroupID + n);                                                             \
        coopMatStore(score[n], MEMORY, own, SUM_STRIDE, gl_CooperativeMatrixLayoutRowMajor);                           \
    }                                                                                                                  \
    barrier();                                                                                                         \
    [[unroll]] for (uint n = 0u; n < WIDE; n++) {                                                                      \
        score[n] = SUM(0.0);                                                                                           \
        [[unroll]] for (uint p = 0u; p < PARTS; p++) {                                                                 \
            SUM part;                                                                                                  \
            uint at = SUM_QUADS * (WIDE * (gl_SubgroupID / PARTS * PARTS + p) + n);                                    \
            coopMatLoad(part, MEMORY, at, SUM_STRIDE, gl_CooperativeMatrixLayoutRowMajor);                             \
            score[n] = score[n] + part;                                                                                \
        }                                                                                                              \
    }
