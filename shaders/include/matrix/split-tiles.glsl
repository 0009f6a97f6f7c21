// Tiles of a product of float32 rows on matrix cores, each number split in two (split.glsl): y = high high + 2^-11 (high
// low + low high), along k in blocks of TILE_K that are added by float32. Rows of either operand that a factor cannot bring
// into float16's range have plain sums in their results.
//
// The shader declares TILE_M, TILE_N and SUBGROUPS (each has a part of the tile) before, and defines: `fetch`, which loads
// the numbers of a block, eight of row `me / EIGHTS + i * STEP` from term `me % EIGHTS * 8` on; `prepare_x`, which changes
// them before they are split; `plain`, the plain sum of an element of the tile.
#include "matrix/split.glsl"

layout(local_size_x = 256) in;

const uint TILE_K = 32u;
#include "matrix/subgroup-tiles.glsl"
// Groups of eight of a row in shared memory, plus one so that rows start at different banks.
const uint EIGHTS = TILE_K / 8u;
const uint STRIDE = EIGHTS + 1u;
const uint LOW = (TILE_M + TILE_N) * STRIDE;
// Results pass through shared memory, half of the rows at a time.
const uint OUT_ROWS = TILE_M / 2u;
const uint OUT_QUADS = TILE_N / 4u;
const uint OUT_STRIDE = OUT_QUADS + 1u;
const uint STAGED = OUT_ROWS * OUT_STRIDE;
// Groups of eight that an invocation loads per block, and the rows between them.
const uint STEP = 256u / EIGHTS;
const uint X_LOADS = TILE_M / STEP;
const uint W_LOADS = TILE_N / STEP;

// High parts of the tiles of x and of the weight, then the low ones; in the end, results.
shared uvec4 tile[2u * LOW > STAGED ? 2u * LOW : STAGED];
// By row of x, then by row of the weight: the factor by which their sums change before block `rescaled`; in the end, that of
// the results, or NaN for plain sums.
shared float factors[TILE_M + TILE_N];
shared uint rescaled;

#include "matrix/subgroup-results.glsl"
// The numbers of the next block.
vec4 x_next[X_LOADS][2];
vec4 w_next[W_LOADS][2];
Fit x_fit[X_LOADS];
Fit w_fit[W_LOADS];

void fetch(uint block);
void prepare_x(uint block);
float plain(uint row, uint column);

// The largest of what the four invocations of a row have, which are neighbours in a subgroup.
uint largest_of_row(uint top) {
    top = max(top, subgroupShuffleXor(top, 1u));
    return max(top, subgroupShuffleXor(top, 2u));
}

// Writes eight numbers each of LOADS rows from FIRST of the tile on to shared memory, and how the rows' factors change. Where
// no number of the subgroup is beyond its row's range, none does, and its invocations need not know each other's.
#define KEEP(NAME, NEXT, FIT, LOADS, FIRST)                                                                            \
    void NAME(uint block) {                                                                                            \
        uint row = FIRST + me / EIGHTS;                                                                                \
        uint top[LOADS];                                                                                               \
        bool beyond = false;                                                                                           \
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {                                                                 \
            top[i] = largest_of(NEXT[i]);                                                                              \
            FIT[i].largest = max(FIT[i].largest, top[i]);                                                              \
            beyond = beyond || exceeds(FIT[i], top[i]);                                                                \
        }                                                                                                              \
        if (subgroupAny(beyond)) {                                                                                     \
            [[unroll]] for (uint i = 0u; i < LOADS; i++) {                                                             \
                float change = refit(FIT[i], largest_of_row(top[i]));                                                  \
                if (change != 1.0 && block > 0u) {                                                                     \
                    rescaled = block;                                                                                  \
                    factors[row + i * STEP] = change;                                                                  \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {                                                                 \
            uint at = (row + i * STEP) * STRIDE + me % EIGHTS;                                                         \
            split(NEXT[i], scale_of(FIT[i]), tile[at], tile[LOW + at]);                                                \
        }                                                                                                              \
    }                                                                                                                  \
    void NAME##_factors() {                                                                                            \
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {                                                                 \
            FIT[i].largest = largest_of_row(FIT[i].largest);                                                           \
            factors[FIRST + me / EIGHTS + i * STEP] = unscale(FIT[i]);                                                 \
        }                                                                                                              \
    }

KEEP(keep_x, x_next, x_fit, X_LOADS, 0u)
KEEP(keep_w, w_next, w_fit, W_LOADS, TILE_M)

void store(uint block) {
    prepare_x(block);
    keep_x(block);
    keep_w(block);
}

void clear_factors() {
    for (uint i = me; i < TILE_M + TILE_N; i += 256u) {
        factors[i] = 1.0;
    }
}

// The sums so far, where factors of their rows change.
void rescale() {
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        SUM down;
        coopMatLoad(down, factors, own_row + MATRIX_M * i, 0u, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
            SUM across;
            uint at = TILE_M + own_column + MATRIX_N * j;
            coopMatLoad(across, factors, at, 0u, gl_CooperativeMatrixLayoutRowMajor);
            sum[i][j] = sum[i][j] * down * across;
        }
    }
    barrier();
    clear_factors();
}

// All sums of the tile, over `blocks` blocks.
void multiply(uint blocks) {
    [[unroll]] for (uint i = 0u; i < X_LOADS; i++) {
        x_fit[i] = Fit(LEAST_EXPONENT, 0u);
    }
    [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
        w_fit[i] = Fit(LEAST_EXPONENT, 0u);
    }
    clear_factors();
    if (me == 0u) {
        rescaled = 0u;
    }
    fetch(0u);
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
            sum[i][j] = SUM(0.0);
        }
    }
    barrier();
    store(0u);
    barrier();
    for (uint block = 0u; block < blocks; block++) {
        if (rescaled == block && block > 0u) {
            rescale();
        }
        // The last block fetches and stores itself again, without effect, as in linear-matrix.glsl.
        uint next = min(block + 1u, blocks - 1u);
        LEFT high[DEPTH][ROWS];
        LEFT low[DEPTH][ROWS];
        [[unroll]] for (uint k = 0u; k < DEPTH; k++) {
            [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                uint at = (own_row + MATRIX_M * i) * STRIDE + TERM_QUADS * k;
                coopMatLoad(high[k][i], tile, at, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                coopMatLoad(low[k][i], tile, LOW + at, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            }
        }
        fetch(next);
        [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
            RIGHT w_high[DEPTH];
            RIGHT w_low[DEPTH];
            [[unroll]] for (uint k = 0u; k < DEPTH; k++) {
                uint at = (TILE_M + own_column + MATRIX_N * j) * STRIDE + TERM_QUADS * k;
                coopMatLoad(w_high[k], tile, at, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
                coopMatLoad(w_low[k], tile, LOW + at, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
            }
            // All subgroups have loaded their last matrices: the next tiles are stored while those are multiplied.
            if (j == COLUMNS - 1u) {
                barrier();
                store(next);
            }
            [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                SUM part = SUM(0.0);
                [[unroll]] for (uint k = 0u; k < DEPTH; k++) {
                    part = coopMatMulAdd(high[k][i], w_low[k], part);
                    part = coopMatMulAdd(low[k][i], w_high[k], part);
                }
                part = part * LOW_UNIT;
                [[unroll]] for (uint k = 0u; k < DEPTH; k++) {
                    part = coopMatMulAdd(high[k][i], w_high[k], part);
                }
                sum[i][j] = sum[i][j] + part;
            }
        }
        barrier();
    }
    keep_x_factors();
    keep_w_factors();
}

// Four sums of row `row` of the tile, which is in half `part`.
vec4 taken(uint part, uint row, uint quad) {
    vec4 sums = uintBitsToFloat(tile[(row - part * OUT_ROWS) * OUT_STRIDE + quad]);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint n = 4u * quad + i;
        sums[i] = sums[i] * factors[row] * factors[TILE_M + n];
        if (is_nan(factors[row]) || is_nan(factors[TILE_M + n])) {
            sums[i] = plain(row, n);
        }
    }
    return sums;
}
