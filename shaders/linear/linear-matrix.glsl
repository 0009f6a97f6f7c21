#version 460
// Computes: y = act(x w^T + bias) + residual on matrix cores; x [rows, k], weight [n, k], residual, y [rows, n] float16 or
// bfloat16, bias [n] float32, sums, bias and activation in float32; y is rounded once, after the residual, or float32 if WIDE. With GATED
// y = act(x gate^T) (x up^T); with FOLDED y = act(layer_norm(x) w^T + bias) as act(r (c / r - m s + x (g w)^T)), where
// m and r are of x's rows, s and c of the columns (layer-norm-columns.glsl), and g and g w are rounded to x's type. With
// EXPERTS w [experts, n, k] and bias [experts, n], without residual (expert-rows.glsl).
// Grid: y = ceil(rows / (8 * TILE_M)), continued along z, x = 8 * ceil(n / OUT_N): eight row tiles iterate over all columns together, so
// that the data they read stays in the second-level cache; with EXPERTS each expert has tiles of its own. SUBGROUPS
// subgroups, each with a part of the tile.
// Reduction order: from the bias, along k in steps of 16, for any tile; within a step, the order of the device's matrix
// cores.
// Assumes: k even, at least 16; 16 x 16 x 16 matrices; subgroups of 256 / SUBGROUPS invocations.
//# # 16 bits on matrix cores; where there are none, `linear` runs: an encoder in 16 bits, a single operation in float32.
//# stored = ["float16", "bfloat16"]
//# made_of = { push = "Product", constants = "Tile" }
//# variants = [
//#     { only = ["float16"], matrices = "f16_f32", needs = ["float16", "storage16"], when = ["k % 2", "k >= 16", "subgroup_size <= 64"] },
//#     { only = ["bfloat16"], matrices = "bf16_f32", needs = ["float16", "storage16"], when = ["k % 2", "k >= 16", "subgroup_size <= 64"] },
//# ]
//#
//# [builds]
//# gated-linear-matrix = { define = "GATED" }
//# layer-norm-linear-matrix = { define = "FOLDED" }
//# expert-linear-matrix = { define = "EXPERTS" }
#include "stored.glsl"
#include "matrix/cooperative-matrix.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 3) const uint TILE_M = 64;
layout(constant_id = 4) const uint TILE_N = 64;
layout(constant_id = 5) const uint TILE_K = 32;
layout(constant_id = 6) const uint SUBGROUPS = 8;
// Whether TILE_K divides k: then no bounds checks are needed.
layout(constant_id = 7) const bool WHOLE = false;
// Units of rows of k elements, and of n: units.glsl.
layout(constant_id = 8) const uint X_UNIT = 8;
layout(constant_id = 9) const uint Y_UNIT = 8;
#if defined(GATED) || defined(FOLDED) || defined(EXPERTS)
#define WIDE false
#else
// Whether the result is float32; then there is no residual.
layout(constant_id = 10) const bool WIDE = false;
#endif

#include "matrix/subgroup-tiles.glsl"
// Columns of the result per workgroup, and per subgroup; gates and gated values each have this many.
#ifdef GATED
#define OUT_N (TILE_N / 2u)
#else
#define OUT_N TILE_N
#endif
const uint OUT_WIDTH = OUT_N / BESIDE;
const uint OUT_COLUMNS = OUT_WIDTH / MATRIX_N;
const uint QUADS = TILE_K / 8u;
// Units of a row per step, and of eight elements.
const uint STEP_UNITS = TILE_K / X_UNIT;
const uint EIGHT_UNITS = 8u / X_UNIT;
#include "matrix/units.glsl"
#include "matrix/result-tiles.glsl"
#include "matrix/row-tiles.glsl"
#include "linear-matrix.interface.glsl"

#ifdef BIASED
shared float bias_tile[TILE_N];
#endif
#ifdef FOLDED
shared float means[TILE_M];
shared float scales[TILE_M];
shared float column_s[TILE_N];
shared float column_c[TILE_N];
// g of the stored step and of the next: read only after the barrier, since loading it into registers earlier is 2%
// slower on an H200.
shared uvec4 gain_tile[2u * QUADS];
uvec4 gain_next;
#define FIRST_GAINS ((push.n + 1u) / 2u)
#endif

// The row of the weight's tile that load i fills.
uint w_row(uint i) {
    return gl_LocalInvocationIndex / QUADS + i * STEP;
}

void fetch(uint step) {
    uint term = step * TILE_K + gl_LocalInvocationIndex % QUADS * 8u;
    [[unroll]] for (uint i = 0u; i < X_LOADS; i++) {
        x_next[i] = eight_of_x(x_at[i] + step * STEP_UNITS, term, push.k);
    }
    [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
        w_next[i] = load_weight(w_row(i), w_at[i] + step * STEP_UNITS, term);
    }
#ifdef FOLDED
    uint following = min(step + 1u, (push.k - 1u) / TILE_K) * QUADS;
    gain_next = column_gains[FIRST_GAINS + following + gl_LocalInvocationIndex % QUADS];
#endif
}

void store(uint step) {
#ifdef FOLDED
    uvec4 gain = gain_tile[step % 2u * QUADS + gl_LocalInvocationIndex % QUADS];
    if (gl_LocalInvocationIndex < QUADS) {
        gain_tile[(step + 1u) % 2u * QUADS + gl_LocalInvocationIndex] = gain_next;
    }
    [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
        w_next[i] = scaled(w_next[i], gain);
    }
#endif
    store_tiles();
}

void main() {
#include "matrix/tile-groups.glsl"
    uint own_row = gl_SubgroupID % DOWN * HEIGHT;
    uint own_part = gl_SubgroupID / DOWN;
    uint own_column = own_part * WIDTH;
    uint me = gl_LocalInvocationIndex;

    // Rows past the last repeat it; their results are not written.
    [[unroll]] for (uint i = 0u; i < X_LOADS; i++) {
        uint row = X_ROW(min(first_row + me / QUADS + i * STEP, rows - 1u));
        x_at[i] = row * (push.k / X_UNIT) + me % QUADS * EIGHT_UNITS;
    }
    [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
        uint row = WEIGHT_ROW(min(first_column + column_of(w_row(i)), push.n - 1u));
        w_at[i] = row * (push.k / X_UNIT) + me % QUADS * EIGHT_UNITS;
    }
    fetch(0u);
    // Initial sums, set while the first tiles are being loaded. With a stride of 0 every row is the bias, or every
    // column the rows' m and r.
    SUM sum[ROWS][COLUMNS];
#ifdef FOLDED
    if (me < QUADS) {
        gain_tile[me] = column_gains[FIRST_GAINS + me];
    }
    for (uint i = me; i < TILE_M; i += 256u) {
        vec2 moment = moments[min(first_row + i, rows - 1u)];
        means[i] = moment.x;
        scales[i] = moment.y;
    }
    for (uint i = me; i < TILE_N; i += 256u) {
        vec2 column = columns[min(first_column + i, push.n - 1u)];
        column_s[i] = column.x;
        column_c[i] = column.y;
    }
    barrier();
    // Initialised to c / r - m s.
    SUM m[ROWS];
    SUM deviation[ROWS];
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        coopMatLoad(m[i], means, own_row + MATRIX_M * i, 0u, gl_CooperativeMatrixLayoutColumnMajor);
        coopMatLoad(deviation[i], scales, own_row + MATRIX_M * i, 0u, gl_CooperativeMatrixLayoutColumnMajor);
        deviation[i] = SUM(1.0) / deviation[i];
    }
    [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
        SUM s;
        SUM c;
        coopMatLoad(s, column_s, own_column + MATRIX_N * j, 0u, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(c, column_c, own_column + MATRIX_N * j, 0u, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            sum[i][j] = c * deviation[i] - m[i] * s;
        }
    }
#else
#ifdef BIASED
    if (BIAS) {
        for (uint i = me; i < TILE_N; i += 256u) {
            bias_tile[i] = first_column + i < push.n ? bias[BIAS_AT(first_column + i)] : 0.0;
        }
        barrier();
    }
#endif
    [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
        SUM start = SUM(0.0);
#ifdef BIASED
        if (BIAS) {
            coopMatLoad(start, bias_tile, own_column + MATRIX_N * j, 0u, gl_CooperativeMatrixLayoutRowMajor);
        }
#endif
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            sum[i][j] = start;
        }
    }
#endif
    store(0u);
    barrier();
    uint steps = (push.k + TILE_K - 1u) / TILE_K;
#include "matrix/matrix-steps.glsl"

#ifdef FOLDED
    SUM r[ROWS];
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        coopMatLoad(r[i], scales, own_row + MATRIX_M * i, 0u, gl_CooperativeMatrixLayoutColumnMajor);
    }
#endif
    [[unroll]] for (uint j = 0u; j < OUT_COLUMNS; j++) {
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
#ifdef FOLDED
            sum[i][j] = sum[i][j] * r[i];
#endif
            if (ACTIVATION != ACTIVATION_IDENTITY) {
                [[unroll]] for (uint e = 0u; e < sum[i][j].length(); e++) {
                    sum[i][j][e] = activate_half(sum[i][j][e]);
                }
            }
#ifdef GATED
            sum[i][j] = sum[i][j] * sum[i][j + OUT_COLUMNS];
#endif
        }
    }
#define RESULTS sum
#include "matrix/matrix-results.glsl"
}
