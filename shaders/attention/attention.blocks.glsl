// Blocks of attention in shared memory: BLOCK_Q queries, BLOCK_KV keys with their values, and their scores. INVOCATIONS
// is four times BLOCK_Q; the loads are those of attention.interface.glsl.

// A head is processed in chunks of 32 columns, so that shared memory does not depend on HEAD_DIM.
const uint CHUNKS = (HEAD_DIM + 31) / 32;
// Quads of keys per block, and rows of it whose scores an invocation computes; rows that are loaded side by side, and
// keys of a block that an invocation loads.
const uint QUADS = BLOCK_KV / 4;
const uint ROWS = BLOCK_KV / 16;
const uint HALF = BLOCK_Q / 2;
const uint LOADS = (BLOCK_KV + HALF - 1) / HALF;
// Odd strides keep neighbouring rows in different banks.
const uint CHUNK_STRIDE = 9;
const uint WEIGHT_STRIDE = QUADS + 1;
const uint CHUNKS_STAGED = (BLOCK_Q + BLOCK_KV) * CHUNK_STRIDE;
const uint WEIGHTS_STAGED = BLOCK_Q * WEIGHT_STRIDE;
// First a chunk of the queries and one of the keys, then the block's scores and weights [BLOCK_Q, BLOCK_KV].
shared vec4 stage[CHUNKS_STAGED > WEIGHTS_STAGED ? CHUNKS_STAGED : WEIGHTS_STAGED];
shared vec4 values[BLOCK_KV * 8];
shared float partial[BLOCK_Q * 4];
shared float factor[BLOCK_Q];
#define FIRST_OTHER BLOCK_Q
#define IS_HIDDEN(WEIGHT) (WEIGHT < 0.0)
#include "attention/attention-products.glsl"

// Columns 32 chunk .. 32 chunk + 31 of the queries from `first` on; zeros from `last` on.
void stage_queries(uint first, uint last, uint q_column, uint chunk) {
    uint quad = gl_LocalInvocationIndex % 8u;
    uint column = 32u * chunk + 4u * quad;
    [[unroll]] for (uint i = 0u; i < 2u; i++) {
        uint row = gl_LocalInvocationIndex / 8u + HALF * i;
        uint at = (first + row) * push.q_stride + q_column + column;
        stage[row * CHUNK_STRIDE + quad] = load_q(first + row < last, at, column);
    }
}

// Declares STAGES, the same of the block's keys or values NAME, to SLOT of each row.
#define STAGE_BLOCK(STAGES, NAME, SLOT)                                                                                \
    void STAGES(uint block, uint keys, uint first_column, uint chunk) {                                                \
        uint quad = gl_LocalInvocationIndex % 8u;                                                                      \
        uint column = 32u * chunk + 4u * quad;                                                                         \
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {                                                                 \
            uint row = gl_LocalInvocationIndex / 8u + HALF * i;                                                        \
            if (BLOCK_KV % HALF == 0u || row < BLOCK_KV) {                                                             \
                uint at = (block + row) * push.NAME##_stride + first_column + column;                                  \
                SLOT = load_##NAME(row < keys, at, column);                                                            \
            }                                                                                                          \
        }                                                                                                              \
    }

// After the queries: key 4 a + b is in row QUADS b + a, so that neighbouring invocations read neighbouring rows.
STAGE_BLOCK(stage_keys, k, stage[(BLOCK_Q + row % 4u * QUADS + row / 4u) * CHUNK_STRIDE + quad])
// In separate memory.
STAGE_BLOCK(stage_values, v, values[row * 8u + quad])
