#version 460
// Computes: as linear-everywhere.glsl, on matrix cores for bytes: the integers of both operands are three signed digits to the
// base 256, whose nine products are summed by weight, five sums in 32 bits. digits [M, 3, K'] and row_exponents [M] of x by
// row-integers.glsl, weight [N, 3, K'] bytes, K' = 64 ceil(K / 64), exponents [N + K].
// Grid: y = ceil(M / (8 * 64)), x = 8 * ceil(N / 128), continued along z: eight row tiles iterate over all columns together.
// Eight subgroups, each with 32 x 32 results of the tile of 64 x 128.
// Reduction order: none that matters, as sums of integers are exact; then bias, activation, residual.
// Assumes: K up to 32,768, so that 32 bits hold three products of digits a term; N a multiple of 4; subgroups of 32.
//# numerics = ["everywhere"]
//# # Where there are none, `linear-everywhere` runs, with the same result.
//# made_of = { push = "Product" }
//# variants = [{ needs = ["coopmat_s8_s32_16x16x32", "int8", "int64"], when = ["n % 4", "k <= 32768", "subgroup_size >= 32", "subgroup_size <= 32"] }]
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#define ELEMENT int8_t
#define SUM_ELEMENT int
#define TERMS 32
#include "matrix/cooperative-matrix.glsl"
#include "counts.glsl"
#include "elementwise/activate.glsl"
#include "everywhere/exact-integers.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const bool BIAS = false;
layout(constant_id = 1) const bool RESIDUAL = false;
layout(constant_id = 2) const uint ACTIVATION = 0;

layout(std430, binding = 1) readonly buffer Digits { uvec4 digits[]; };
layout(std430, binding = 2) readonly buffer RowExponents { int row_exponents[]; };
layout(std430, binding = 3) readonly buffer Weight { uvec4 weight[]; };
layout(std430, binding = 4) readonly buffer Exponents { int exponents[]; };
layout(std430, binding = 5) readonly buffer Bias { float bias[]; };
layout(std430, binding = 6) readonly buffer Residual { vec4 residual[]; };
layout(std430, binding = 7) writeonly buffer Y { vec4 y[]; };

layout(push_constant) uniform Push {
    uint rows_of;
    uint rows;
    // Bound rows of the weight, which produce columns column .. column + n of the result.
    uint n;
    uint k;
    uint column;
    uint y_columns;
} push;

const uint TILE_M = 64u;
const uint TILE_N = 128u;
// Quads of a digit and a step of 64 terms, and one more so that rows start at different banks.
const uint QUADS = 4u;
const uint STRIDE = QUADS + 1u;
// Lines of shared memory: every row's lowest digit, then the others; those of x before those of the weight.
const uint LINES = 3u * (TILE_M + TILE_N);
const uint STEP = 256u / QUADS;
const uint LOADS = LINES / STEP;
const uint X_LOADS = 3u * TILE_M / STEP;
// Quads of a row of results.
const uint OUT_STRIDE = TILE_N / 4u + 1u;

shared uvec4 tile[LINES * STRIDE];
// 0 where a row or a column has NaN alone.
shared int of_rows[TILE_M];
shared int of_columns[TILE_N];
uint at[LOADS];
uvec4 next[LOADS];

void fetch(uint step) {
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        next[i] = i < X_LOADS ? digits[at[i] + step * QUADS] : weight[at[i] + step * QUADS];
    }
}

void store() {
    uint first = gl_LocalInvocationIndex / QUADS * STRIDE + gl_LocalInvocationIndex % QUADS;
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        tile[first + i * STEP * STRIDE] = next[i];
    }
}

// sums[0] + 2^8 sums[1] + .. + 2^32 sums[4], times 2^exponent, as `assembled` has it, from the conversion of 64 bits.
float assembled_digits(int s0, int s1, int s2, int s3, int s4, int exponent) {
    int64_t sum = (int64_t(s4) << 32) + (int64_t(s3) << 24) + (int64_t(s2) << 16) + (int64_t(s1) << 8) + int64_t(s0);
    uint bits = floatBitsToUint(float(sum));
    uint sign = bits & 0x80000000u;
    int field = int((bits >> 23) & 0xffu);
    uint moved = bits + (uint(exponent) << 23);
    moved = field + exponent < 1 ? sign : (field + exponent > 254 ? sign | 0x7f800000u : moved);
    return uintBitsToFloat(field == 0 ? 0u : moved);
}

vec4 finished(vec4 found, uint row, uint quad) {
    uint at_quad = (row * push.y_columns + push.column) / 4u + quad;
    for (uint i = 0u; i < 4u; i++) {
        float one = found[i];
        if (BIAS) {
            one = settled(one) + settled(bias[push.column + 4u * quad + i]);
        }
        if (ACTIVATION != ACTIVATION_IDENTITY) {
            one = activate(ACTIVATION, settled(one));
        }
        found[i] = one;
    }
    if (RESIDUAL) {
        found = settled(found) + settled(residual[at_quad]);
    }
    return canonical(found);
}

void main() {
    uint rows = batch_rows(push.rows_of, push.rows);
    uint row_tiles = (rows + TILE_M - 1u) / TILE_M;
    uint first_tile = group_y() * 8u;
    uint height = min(8u, row_tiles - min(first_tile, row_tiles));
    // The last group may have fewer tiles.
    if (gl_WorkGroupID.x >= height * ((push.n + TILE_N - 1u) / TILE_N)) {
        return;
    }
    uint first_row = (first_tile + gl_WorkGroupID.x % height) * TILE_M;
    uint first_column = gl_WorkGroupID.x / height * TILE_N;
    uint own_row = gl_SubgroupID % 2u * 32u;
    uint own_column = gl_SubgroupID / 2u * 32u;
    uint me = gl_LocalInvocationIndex;
    uint steps = (push.k + 63u) / 64u;

    // Rows past the last repeat it; their results are not written.
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint line = me / QUADS + i * STEP;
        uint row = i < X_LOADS ? min(first_row + line % TILE_M, rows - 1u) * 3u + line / TILE_M
                               : min(first_column + (line - 3u * TILE_M) % TILE_N, push.n - 1u) * 3u + (line - 3u * TILE_M) / TILE_N;
        at[i] = row * steps * QUADS + me % QUADS;
    }
    for (uint i = me; i < TILE_M; i += 256u) {
        of_rows[i] = row_exponents[min(first_row + i, rows - 1u)];
    }
    for (uint i = me; i < TILE_N; i += 256u) {
        of_columns[i] = exponents[push.column + min(first_column + i, push.n - 1u)];
    }
    fetch(0u);
    SUM sum[5][2][2];
    [[unroll]] for (uint s = 0u; s < 5u; s++) {
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            sum[s][i / 2u][i % 2u] = SUM(0);
        }
    }
    store();
    barrier();
    for (uint step = 1u; step <= steps; step++) {
        // The last step fetches and stores its own tiles again, without effect: code without conditions is scheduled better.
        uint following = min(step, steps - 1u);
        [[unroll]] for (uint d = 0u; d < 2u; d++) {
            LEFT a[3][2];
            RIGHT b[3][2];
            [[unroll]] for (uint p = 0u; p < 3u; p++) {
                [[unroll]] for (uint i = 0u; i < 2u; i++) {
                    uint row = p * TILE_M + own_row + 16u * i;
                    uint column = 3u * TILE_M + p * TILE_N + own_column + 16u * i;
                    coopMatLoad(a[p][i], tile, row * STRIDE + 2u * d, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                    coopMatLoad(b[p][i], tile, column * STRIDE + 2u * d, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
                }
            }
            if (d == 0u) {
                fetch(following);
            }
            // All subgroups have loaded their last matrices: the next tiles are stored while those are multiplied.
            if (d == 1u) {
                barrier();
                store();
            }
            [[unroll]] for (uint p = 0u; p < 3u; p++) {
                [[unroll]] for (uint o = 0u; o < 3u; o++) {
                    [[unroll]] for (uint i = 0u; i < 4u; i++) {
                        sum[p + o][i / 2u][i % 2u] = coopMatMulAdd(a[p][i / 2u], b[o][i % 2u], sum[p + o][i / 2u][i % 2u]);
                    }
                }
            }
        }
        barrier();
    }

    // Results pass through shared memory, so that whole rows are read and written. With a stride of 0 every column is the rows'
    // numbers, or every row the columns'.
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        SUM row, column;
        FLOATS found;
        coopMatLoad(row, of_rows, own_row + i / 2u * 16u, 0u, gl_CooperativeMatrixLayoutColumnMajor);
        coopMatLoad(column, of_columns, own_column + i % 2u * 16u, 0u, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint e = 0u; e < found.length(); e++) {
            float own = assembled_digits(sum[0][i / 2u][i % 2u][e], sum[1][i / 2u][i % 2u][e], sum[2][i / 2u][i % 2u][e],
                                         sum[3][i / 2u][i % 2u][e], sum[4][i / 2u][i % 2u][e], row[e] + column[e] - 44);
            bool finite = row[e] != NOT_FINITE && column[e] != NOT_FINITE;
            found[e] = finite ? own : uintBitsToFloat(0x7fc00000u);
        }
        uint place = (own_row + i / 2u * 16u) * OUT_STRIDE + (own_column + i % 2u * 16u) / 4u;
        coopMatStore(found, tile, place, OUT_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    }
    barrier();
    for (uint i = me; i < TILE_M * TILE_N / 4u; i += 256u) {
        uint row = first_row + i / (TILE_N / 4u);
        uint quad = first_column / 4u + i % (TILE_N / 4u);
        if (row < rows && 4u * quad < push.n) {
            vec4 found = uintBitsToFloat(tile[i / (TILE_N / 4u) * OUT_STRIDE + i % (TILE_N / 4u)]);
            y[(row * push.y_columns + push.column) / 4u + quad] = finished(found, row, quad);
        }
    }
}
