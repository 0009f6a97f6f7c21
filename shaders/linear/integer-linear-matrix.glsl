#version 460
// Computes: y[m, n] = sum_k q[m, k] weight[n, k] on matrix cores; q [rows, k] int8, sixteen per quad, weight [n, k] of LEVELS,
// sixteen in a quad, a word or half a word, y [rows, n] int32. With SCALED y = act(s (1 / scale[m]) + bias[n]) +
// residual[m, n] as floats, s = sum_k (q[m, k] - zero[m]) weight[n, k] (1 / weight_scale[n]): quantized-interface.glsl.
// Grid: y = ceil(rows / (8 * TILE_M)), x = 8 * ceil(n / TILE_N), z as linear-matrix.glsl. SUBGROUPS subgroups, each with a
// part of the tile.
// Reduction order: irrelevant; sums of integers are exact.
// Assumes: k a multiple of 16, k < 2^17, with PAIRS 2^16; TILE_K a multiple of 32; matrices of 16 x 16 sums of 32 terms;
// subgroups of 256 / SUBGROUPS invocations.
//# # Where there are no matrix cores for 8-bit integers, `integer-linear` runs, with the same result.
//# made_of = { push = "Product", constants = "Tile" }
//# numerics = ["run", "everywhere"]
//# variants = [
//#     { only = ["float32"], matrices = "s8_s32", needs = ["float16", "int8", "integer_dot_product"], when = ["k % 16", "k >= 16", "subgroup_size <= 64"] },
//#     { only = ["float16", "bfloat16"], matrices = "s8_s32", needs = ["float16", "storage16", "int8", "integer_dot_product"], when = ["k % 16", "k >= 16", "subgroup_size <= 64"] },
//# ]
//#
//# [builds]
//# quantized-linear-matrix = { define = "SCALED", stored = ["float32", "float16", "bfloat16"] }
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#define ELEMENT int8_t
#define ELEMENT_BYTES 1
#define SUM_ELEMENT int
#include "matrix/cooperative-matrix.glsl"
#include "counts.glsl"
#include "levels.glsl"
#ifdef SCALED
#define WEIGHT 3
#define ADDS
#define Y_ROW(ROW) (ROW)
#include "product/dot.glsl"
#include "product/quantized-interface.glsl"
#else
#define WEIGHT 2
layout(constant_id = 5) const uint LEVELS = INT8;
layout(std430, binding = 3) writeonly buffer Y { uint y[]; };
layout(std430, binding = 3) writeonly buffer YQuads { uvec4 y_4[]; };
#endif
#include "product/sixteen.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint TILE_M = 64;
layout(constant_id = 1) const uint TILE_N = 64;
layout(constant_id = 2) const uint TILE_K = 64;
layout(constant_id = 3) const uint SUBGROUPS = 8;
// Whether TILE_K divides k: then no bounds checks are needed.
layout(constant_id = 4) const bool WHOLE = false;
// The unit of rows of n elements: units.glsl.
layout(constant_id = 11) const uint Y_UNIT = 4;

#define OUT_N TILE_N
#include "matrix/subgroup-tiles.glsl"
const uint QUADS = TILE_K / 16u;
#ifdef SCALED
const uint OUT_WIDTH = WIDTH;
const uint OUT_COLUMNS = COLUMNS;
#define WIDE false
#include "matrix/result-tiles.glsl"
#include "matrix/units.glsl"
UNITS(6, readonly, residual)
QUADS_OF(residual, RESULT_UNIT)
#if STORED == FLOAT16
EIGHTS_OF(residual, RESULT_UNIT, RESULT_UNIT == 8u)
#endif
UNITS(7, writeonly, y)
PUTS(y, RESULT_UNIT)
#else
// Results pass through shared memory one column of matrices of each subgroup at a time.
const uint OUT_QUADS = BESIDE * MATRIX_N / 4u;
const uint OUT_STRIDE = OUT_QUADS + 1u;
const uint QUAD_UNITS = 4u / Y_UNIT;
const uint OUT_UNITS = OUT_QUADS * QUAD_UNITS;
const uint RESULT = TILE_M * OUT_STRIDE;
#endif
#include "matrix/row-tiles.glsl"
#include "product/product-push.glsl"
#ifdef SCALED
// Sums of the weight's columns: of this invocation's quads of the steps before `summed`, and of all.
int w_sum[W_LOADS];
uint summed = 0u;
// Whole quads, since matrices are loaded from multiples of sixteen bytes.
shared int column_sum[PAIRS ? TILE_N : 4u];
shared int zeros[PAIRS ? TILE_M : 4u];
shared float row_factor[TILE_M];
shared float column_factor[TILE_N];
shared float bias_tile[TILE_N];
#endif

uvec4 unpacked(uvec4 stored) {
    if (LEVELS == INT8) {
        return stored;
    }
    const uint bits = LEVELS == TERNARY ? 8u : 4u;
    uvec4 codes;
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        codes[i] = bytes_of_four(LEVELS, bitfieldExtract(stored.x, int(bits * i), int(bits)));
    }
    return codes;
}

bool inside(uint step) {
    return WHOLE || step * QUADS + gl_LocalInvocationIndex % QUADS < push.k / 16u;
}

void fetch(uint step) {
    bool there = inside(step);
    [[unroll]] for (uint i = 0u; i < X_LOADS; i++) {
        x_next[i] = there ? q[x_at[i] + step * QUADS] : uvec4(0u);
    }
    [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
        // Past the end q is 0, and the weight does not matter.
        w_next[i] = there ? sixteen(w_at[i] + step * QUADS) : uvec4(0u);
    }
}

void store(uint step) {
    [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
        w_next[i] = unpacked(w_next[i]);
#ifdef SCALED
        if (PAIRS && step == summed && inside(step)) {
            [[unroll]] for (uint j = 0u; j < 4u; j++) {
                w_sum[i] += sum_of_bytes(w_next[i][j]);
            }
        }
#endif
    }
    store_tiles();
#ifdef SCALED
    // The last step is stored twice.
    summed = step + 1u;
#endif
}

void main() {
#include "matrix/tile-groups.glsl"
    uint own_row = gl_SubgroupID % DOWN * HEIGHT;
    uint own_part = gl_SubgroupID / DOWN;
    uint own_column = own_part * WIDTH;
    uint me = gl_LocalInvocationIndex;

    // Rows past the last repeat it; their results are not written.
    [[unroll]] for (uint i = 0u; i < X_LOADS; i++) {
        x_at[i] = min(first_row + me / QUADS + i * STEP, rows - 1u) * (push.k / 16u) + me % QUADS;
    }
    [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
        w_at[i] = min(first_column + me / QUADS + i * STEP, push.n - 1u) * (push.k / 16u) + me % QUADS;
    }
    fetch(0u);
#ifdef SCALED
    [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
        w_sum[i] = 0;
    }
    for (uint i = me; i < TILE_M; i += 256u) {
        uint row = min(first_row + i, rows - 1u);
        row_factor[i] = row_factor_of(row);
        if (PAIRS) {
            zeros[i] = zero_of(row);
        }
    }
    for (uint i = me; i < TILE_N; i += 256u) {
        uint column = min(first_column + i, push.n - 1u);
        column_factor[i] = column_factor_of(column);
        bias_tile[i] = bias_of(column);
        if (PAIRS) {
            column_sum[i] = 0;
        }
    }
#endif
    SUM sum[ROWS][COLUMNS];
    [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            sum[i][j] = SUM(0);
        }
    }
    store(0u);
    barrier();
    uint steps = (push.k + TILE_K - 1u) / TILE_K;
#include "matrix/matrix-steps.glsl"

#ifdef SCALED
    if (PAIRS) {
        [[unroll]] for (uint i = 0u; i < W_LOADS; i++) {
            if (TILE_N % STEP == 0u || me / QUADS + i * STEP < TILE_N) {
                atomicAdd(column_sum[me / QUADS + i * STEP], w_sum[i]);
            }
        }
        barrier();
    }
    // With a stride of 0 every column is the rows' numbers, or every row the columns'.
    FLOATS result[ROWS][COLUMNS];
    FLOATS row_factors[ROWS];
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        coopMatLoad(row_factors[i], row_factor, own_row + MATRIX_M * i, 0u, gl_CooperativeMatrixLayoutColumnMajor);
    }
    [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
        FLOATS column_factors;
        FLOATS added;
        SUM ones;
        coopMatLoad(column_factors, column_factor, own_column + MATRIX_N * j, 0u, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(added, bias_tile, own_column + MATRIX_N * j, 0u, gl_CooperativeMatrixLayoutRowMajor);
        if (PAIRS) {
            coopMatLoad(ones, column_sum, own_column + MATRIX_N * j, 0u, gl_CooperativeMatrixLayoutRowMajor);
        }
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            SUM exact = sum[i][j];
            if (PAIRS) {
                SUM zero;
                coopMatLoad(zero, zeros, own_row + MATRIX_M * i, 0u, gl_CooperativeMatrixLayoutColumnMajor);
                exact = exact - zero * ones;
            }
            FLOATS found = FLOATS(exact);
            [[unroll]] for (uint e = 0u; e < found.length(); e++) {
                precise float scaled = PRODUCT(found[e], column_factors[e]);
                found[e] = finished(scaled, row_factors[i][e], added[e]);
            }
            result[i][j] = found;
        }
    }
#define RESULTS result
#include "matrix/matrix-results.glsl"
#else
    uint row_units = push.n / Y_UNIT;
    [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
        if (j > 0u) {
            barrier();
        }
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            uint at = (own_row + MATRIX_M * i) * OUT_STRIDE + MATRIX_N / 4u * own_part;
            coopMatStore(sum[i][j], tile, at, OUT_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        }
        barrier();
        for (uint i = me; i < TILE_M * OUT_UNITS; i += 256u) {
            uint row = first_row + i / OUT_UNITS;
            uint own = i % OUT_UNITS;
            uint part = own / (MATRIX_N / Y_UNIT);
            uint unit = (first_column + part * WIDTH + MATRIX_N * j) / Y_UNIT + own % (MATRIX_N / Y_UNIT);
            if (row < rows && unit < row_units) {
                uvec4 quad = tile[i / OUT_UNITS * OUT_STRIDE + own / QUAD_UNITS];
                if (Y_UNIT == 4u) {
                    y_4[row * row_units + unit] = quad;
                } else {
                    y[row * row_units + unit] = quad[own % QUAD_UNITS];
                }
            }
        }
    }
#endif
}
