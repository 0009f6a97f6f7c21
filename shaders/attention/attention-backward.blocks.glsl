// Blocks of attention-backward in shared memory, 64 rows and 64 others, and which rows, others and columns an invocation has.

const uint BLOCK = 64u;
// A head is processed in chunks of 32 columns, so that shared memory does not depend on HEAD_DIM.
const uint CHUNKS = (HEAD_DIM + 31) / 32;
const uint QUADS = BLOCK / 4u;
const uint ROWS = 4u;
// Odd strides keep neighbouring rows in different banks.
const uint CHUNK_STRIDE = 9u;
const uint WEIGHT_STRIDE = QUADS + 1u;
// First a chunk of the rows and one of the others, then the block's weights [BLOCK, BLOCK].
shared vec4 stage[2u * BLOCK * CHUNK_STRIDE];
shared vec4 values[BLOCK * 8u];
// The weight, above any other, of what is hidden from a row but not from another.
const float HIDDEN = 3.40282347e38;

// What a row meets: rows from `from` to before `to` are of one text of keys and one of queries.
struct Meeting {
    uint from;
    uint to;
    uint q_begin;
    uint queries;
    uint k_begin;
    uint keys;
    uint text;
};

// The tile's rows.
uint first, last;
#define FIRST_OTHER BLOCK
#define IS_HIDDEN(WEIGHT) (WEIGHT == HIDDEN)
#include "attention/attention-products.glsl"

// Declares STAGES: a chunk of ROW of the rows, and one of OTHER of the others, other 4 a + b in row QUADS b + a, so that
// neighbouring invocations read neighbouring rows.
#define STAGE_PAIR(STAGES, ROW, OTHER)                                                                                 \
    void STAGES(uint others, uint count, uint chunk) {                                                                 \
        uint column = 32u * chunk + 4u * tc;                                                                           \
        [[unroll]] for (uint i = 0u; i < 2u; i++) {                                                                    \
            uint row = gl_LocalInvocationIndex / 8u + 32u * i;                                                         \
            uint slot = BLOCK + row % 4u * QUADS + row / 4u;                                                           \
            stage[row * CHUNK_STRIDE + tc] = ROW(first + row < last, first + row, column);                             \
            stage[slot * CHUNK_STRIDE + tc] = OTHER(row < count, others + row, column);                                \
        }                                                                                                              \
    }

// Declares stage_values: the same of VALUE of the others, in separate memory.
#define STAGE_VALUES(VALUE)                                                                                            \
    void stage_values(uint others, uint count, uint chunk) {                                                           \
        uint column = 32u * chunk + 4u * tc;                                                                           \
        [[unroll]] for (uint i = 0u; i < 2u; i++) {                                                                    \
            uint row = gl_LocalInvocationIndex / 8u + 32u * i;                                                         \
            values[row * 8u + tc] = VALUE(row < count, others + row, column);                                          \
        }                                                                                                              \
    }

#ifdef BY_KEY
STAGE_PAIR(stage_scores, of_k, of_q)
#else
STAGE_PAIR(stage_scores, of_q, of_k)
#endif
#if defined(VALUES)
STAGE_VALUES(of_g)
#elif defined(KEYS)
STAGE_PAIR(stage_slopes, of_v, of_g)
STAGE_VALUES(of_q)
#else
STAGE_PAIR(stage_slopes, of_g, of_v)
STAGE_VALUES(of_k)
#endif

// Writes the results, times a factor of each row, and zeros to the columns of no head.
#define STORE(NAME, STRIDE, COLUMN)                                                                                    \
    void store() {                                                                                                     \
        uint begin = COLUMN + gl_WorkGroupID.y * HEAD_DIM;                                                             \
        [[unroll]] for (uint i = 0u; i < 2u; i++) {                                                                    \
            uint row = first + tr + i;                                                                                 \
            [[unroll]] for (uint chunk = 0u; chunk < CHUNKS; chunk++) {                                                \
                vec4 quad = result[2u * chunk + i] * factor_of(tr + i);                                                \
                uint column = 32u * chunk + 4u * tc;                                                                   \
                uint at = row * STRIDE + begin + column;                                                               \
                if (row < last && column < HEAD_DIM) {                                                                 \
                    STORE_QUAD(NAME, VECTOR, column, HEAD_DIM)                                                         \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        if (push.others == 0u || gl_WorkGroupID.y > 0u) {                                                              \
            return;                                                                                                    \
        }                                                                                                              \
        uint end = COLUMN + gl_NumWorkGroups.y * HEAD_DIM;                                                             \
        for (uint i = gl_LocalInvocationIndex; VECTOR && 4u * i < (last - first) * STRIDE; i += 256u) {                \
            uint column = 4u * i % STRIDE;                                                                             \
            if (column < COLUMN || column >= end) {                                                                    \
                NAME##_4[first * STRIDE / 4u + i] = narrow(vec4(0.0));                                                 \
            }                                                                                                          \
        }                                                                                                              \
        for (uint i = gl_LocalInvocationIndex; !VECTOR && i < (last - first) * STRIDE; i += 256u) {                    \
            uint column = i % STRIDE;                                                                                  \
            if (column < COLUMN || column >= end) {                                                                    \
                NAME[first * STRIDE + i] = 0.0;                                                                        \
            }                                                                                                          \
        }                                                                                                              \
    }
