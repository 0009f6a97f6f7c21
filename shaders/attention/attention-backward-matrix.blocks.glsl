// Rows, blocks of others and results of attention-backward-matrix in shared memory.
#include "attention/attention-rows.glsl"

const uint TILE = MATRIX_M * SUBGROUPS;
const uint OTHERS = 32u;
const float LOG2_E = 1.44269504;
// Columns of matrices per head, and per block.
const uint SLICES = (HEAD_DIM + MATRIX_N - 1u) / MATRIX_N;
// Eights of a head in matrices, and of a row in shared memory, plus one so that rows start at different banks.
const uint EIGHTS = SLICES * MATRIX_N / 8u;
const uint STRIDE = EIGHTS + 1u;
const uint SECOND = OTHERS * STRIDE;
const uint OUT_STRIDE = 2u * EIGHTS + 1u;
const uint WIDE = OTHERS / MATRIX_N;
const uint LOADS = (OTHERS * EIGHTS + INVOCATIONS - 1u) / INVOCATIONS;

// The first operand of a block of others, then the second; before them those of the tile's rows, after them results.
shared uvec4 tile[2u * TILE * STRIDE];
// A bit for each other of a block with a NaN or an infinity, by turns of blocks.
shared uint faults[3];
#ifdef KEYS
// Of the block's queries.
shared float log_sums[OTHERS];
shared float ds[OTHERS];
#endif

// The tile's rows, the subgroup's first, and whose turn it is.
uint first, last, own_row;
uint turn = 0u;
// The factor that makes products powers of two.
float unit;
// Both operands of the subgroup's rows, their products with a block, and results.
LEFT own_first[SLICES];
LEFT own_second[SLICES];
SUM score[WIDE];
SUM change[WIDE];
SUM first_result[SLICES];
#ifdef KEYS
SUM second_result[SLICES];
#define OWN_FIRST of_k
#define OWN_SECOND of_v
#define OTHER_FIRST of_q
#define OTHER_SECOND of_g
#else
#define OWN_FIRST of_q
#define OWN_SECOND of_g
#define OTHER_FIRST of_k
#define OTHER_SECOND of_v
#endif

// Loads both operands of the subgroup's rows; those past the last repeat it.
void load_own() {
    for (uint i = gl_LocalInvocationIndex; i < TILE * EIGHTS; i += INVOCATIONS) {
        uint row = min(first + i / EIGHTS, last - 1u);
        uint slot = i / EIGHTS * STRIDE + i % EIGHTS;
        tile[slot] = OWN_FIRST(row, i % EIGHTS);
        tile[TILE * STRIDE + slot] = OWN_SECOND(row, i % EIGHTS);
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < SLICES; i++) {
        uint at = own_row * STRIDE + TERM_QUADS * i;
        coopMatLoad(own_first[i], tile, at, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(own_second[i], tile, at + TILE * STRIDE, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    }
}

// Loads a block of `count` others; zeros after them, and instead of NaN and infinities, of which `faults` reminds: 0 times a
// hidden NaN is not 0.
void load(uint other, uint count) {
    turn = (turn + 1u) % 3u;
    // The next turn's are of a block that all have left.
    if (gl_LocalInvocationIndex == 0u) {
        faults[(turn + 1u) % 3u] = 0u;
    }
    uvec4 one[LOADS];
    uvec4 two[LOADS];
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint slot = gl_LocalInvocationIndex + INVOCATIONS * i;
        uint row = other + min(slot / EIGHTS, count - 1u);
        one[i] = OTHER_FIRST(row, slot % EIGHTS);
        two[i] = OTHER_SECOND(row, slot % EIGHTS);
    }
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint slot = gl_LocalInvocationIndex + INVOCATIONS * i;
        uint row = slot / EIGHTS;
        if (row < OTHERS) {
            uvec4 kept[2] = uvec4[2](finite(one[i]), finite(two[i]));
            if (row < count && (kept[0] != one[i] || kept[1] != two[i])) {
                atomicOr(faults[turn], 1u << row);
            }
            uvec4 there = uvec4(row < count ? 0xffffffffu : 0u);
            tile[row * STRIDE + slot % EIGHTS] = kept[0] & there;
            tile[SECOND + row * STRIDE + slot % EIGHTS] = kept[1] & there;
        }
    }
#ifdef KEYS
    if (gl_LocalInvocationIndex < OTHERS) {
        uint query = other + min(gl_LocalInvocationIndex, count - 1u);
        log_sums[gl_LocalInvocationIndex] = log_sum_of(query);
        ds[gl_LocalInvocationIndex] = d_of(query);
    }
#endif
}

// NaN for such an other, else 0.
float fault_of(uint other) {
    return (faults[turn] >> other & 1u) == 0u ? 0.0 : uintBitsToFloat(0x7fc00000u);
}

// The products of the subgroup's rows with the block.
void multiply() {
    [[unroll]] for (uint n = 0u; n < WIDE; n++) {
        score[n] = SUM(0.0);
        change[n] = SUM(0.0);
        [[unroll]] for (uint i = 0u; i < SLICES; i++) {
            RIGHT other;
            uint at = MATRIX_N * n * STRIDE + TERM_QUADS * i;
            coopMatLoad(other, tile, at, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
            score[n] = coopMatMulAdd(own_first[i], other, score[n]);
            coopMatLoad(other, tile, SECOND + at, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
            change[n] = coopMatMulAdd(own_second[i], other, change[n]);
        }
    }
}

// Writes the results of the tile's rows.
#define STORE(NAME, RESULT, OF, COLUMN)                                                                                \
    void store_##NAME() {                                                                                              \
        barrier();                                                                                                     \
        [[unroll]] for (uint i = 0u; i < SLICES; i++) {                                                                \
            coopMatStore(RESULT[i], tile, own_row * OUT_STRIDE + MATRIX_N / 4u * i, OUT_STRIDE,                        \
                         gl_CooperativeMatrixLayoutRowMajor);                                                          \
        }                                                                                                              \
        barrier();                                                                                                     \
        for (uint i = gl_LocalInvocationIndex; i < TILE * (HEAD_DIM / 4u); i += INVOCATIONS) {                                \
            uint row = i / (HEAD_DIM / 4u);                                                                            \
            uint quad = i % (HEAD_DIM / 4u);                                                                           \
            if (first + row < last) {                                                                                  \
                vec4 numbers = uintBitsToFloat(tile[row * OUT_STRIDE + quad]);                                         \
                NAME[((first + row) * push.OF##_stride + COLUMN) / 4u + quad] = narrow(numbers);                       \
            }                                                                                                          \
        }                                                                                                              \
    }
#ifdef KEYS
STORE(dk, first_result, k, k_column)
STORE(dv, second_result, v, v_column)
#else
STORE(dq, first_result, q, q_column)
#endif
