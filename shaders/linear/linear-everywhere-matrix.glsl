#version 460
// Computes: as linear-everywhere.glsl, on matrix cores for bytes: the integers of both operands are three signed digits to the
// base 256, whose nine products are summed by weight, five sums in 32 bits. digits [M, 3, K'] and row_exponents [M] of x by
// row-integers.glsl, weight [N, 3, K'] bytes, K' = 64 ceil(K / 64), exponents [N + K].
// Grid: y = ceil(M / (8 * 64)), x = 8 * ceil(N / TILE_N), continued along z: eight row tiles iterate over all columns together.
// Subgroups have 2 x COLUMNS matrices each of the tile of 64 x TILE_N.
// Reduction order: none that matters, as sums of integers are exact; then bias, activation, residual.
// Assumes: K up to 32,768, so that 32 bits hold three products of digits a term; N a multiple of 4; subgroups as the variant's.
//# numerics = ["everywhere"]
//# # Where there are none, `linear-everywhere` runs, with the same result.
//# made_of = { push = "Product" }
//# variants = [
//#     { needs = ["coopmat_s8_s32_16x16x32", "int8", "int64"], when = ["n % 4", "k <= 32768", "subgroup_size >= 32", "subgroup_size <= 32"] },
//#     { name = "eights", needs = ["coopmat_s8_s32_8x8x8", "int8", "int64"], when = ["n % 4", "k <= 32768", "subgroup_size >= 8", "subgroup_size <= 8"], defines = { EIGHTS = "1" } },
//# ]
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "everywhere/digit-matrices.glsl"
#include "counts.glsl"
#include "elementwise/activate.glsl"
#include "everywhere/exact-integers.glsl"
#include "everywhere/digit-products.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const bool BIAS = false;
layout(constant_id = 1) const bool RESIDUAL = false;
layout(constant_id = 2) const uint ACTIVATION = 0;

layout(std430, binding = 1) readonly buffer Digits { PIECE digits[]; };
layout(std430, binding = 2) readonly buffer RowExponents { int row_exponents[]; };
layout(std430, binding = 3) readonly buffer Weight { PIECE weight[]; };
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
// As shared memory of 32 KiB, or 48, has room for.
const uint TILE_N = SIDE == 8 ? 64u : 128u;
// Matrices of a subgroup side by side, and subgroups one below another.
const uint COLUMNS = TILE_M * TILE_N / (2u * SIDE * SIDE * 256u / LANES_OF_MATRIX);
const uint BELOW = TILE_M / (2u * SIDE);
// Pieces of a digit and a step of 64 terms.
const uint PIECES = 64u / PIECE_BYTES;
const uint STRIDE = PIECES + APART;
// Lines of shared memory: every row's lowest digit, then the others; those of x before those of the weight.
const uint LINES = 3u * (TILE_M + TILE_N);
const uint STEP = 256u / PIECES;
const uint LOADS = LINES / STEP;
const uint X_LOADS = 3u * TILE_M / STEP;
// Pieces of a row of results, which begin at multiples of 16 bytes.
const uint OUT_STRIDE = (4u * TILE_N + 16u) / PIECE_BYTES;

shared PIECE tile[LINES * STRIDE];
// 0 where a row or a column has NaN alone.
shared int of_rows[TILE_M];
shared int of_columns[TILE_N];
uint at[LOADS];
PIECE next[LOADS];

void fetch(uint step) {
    UNROLLED for (uint i = 0u; i < LOADS; i++) {
        next[i] = i < X_LOADS ? digits[at[i] + step * PIECES] : weight[at[i] + step * PIECES];
    }
}

void store() {
    uint first = gl_LocalInvocationIndex / PIECES * STRIDE + gl_LocalInvocationIndex % PIECES;
    UNROLLED for (uint i = 0u; i < LOADS; i++) {
        tile[first + i * STEP * STRIDE] = next[i];
    }
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
    uint own_row = gl_SubgroupID % BELOW * (2u * SIDE);
    uint own_column = gl_SubgroupID / BELOW * (COLUMNS * SIDE);
    uint me = gl_LocalInvocationIndex;
    uint steps = (push.k + 63u) / 64u;

    // Rows past the last repeat it; their results are not written.
    UNROLLED for (uint i = 0u; i < LOADS; i++) {
        uint line = me / PIECES + i * STEP;
        uint row = i < X_LOADS ? min(first_row + line % TILE_M, rows - 1u) * 3u + line / TILE_M
                               : min(first_column + (line - 3u * TILE_M) % TILE_N, push.n - 1u) * 3u + (line - 3u * TILE_M) / TILE_N;
        at[i] = row * steps * PIECES + me % PIECES;
    }
    for (uint i = me; i < TILE_M; i += 256u) {
        of_rows[i] = row_exponents[min(first_row + i, rows - 1u)];
    }
    for (uint i = me; i < TILE_N; i += 256u) {
        of_columns[i] = exponents[push.column + min(first_column + i, push.n - 1u)];
    }
    fetch(0u);
    SUM sum[5][2][COLUMNS];
    [[unroll]] for (uint s = 0u; s < 5u; s++) {
        [[unroll]] for (uint i = 0u; i < 2u * COLUMNS; i++) {
            sum[s][i / COLUMNS][i % COLUMNS] = SUM(0);
        }
    }
    store();
    barrier();
    for (uint step = 1u; step <= steps; step++) {
        // The last step fetches and stores its own tiles again, without effect: code without conditions is scheduled better.
        uint following = min(step, steps - 1u);
        UNROLLED for (uint d = 0u; d < 64u / TERMS; d++) {
            uint piece = d * (TERMS / PIECE_BYTES);
            LEFT a[3][2];
            RIGHT b[3][COLUMNS];
            [[unroll]] for (uint p = 0u; p < 3u; p++) {
                [[unroll]] for (uint i = 0u; i < 2u; i++) {
                    uint row = p * TILE_M + own_row + SIDE * i;
                    coopMatLoad(a[p][i], tile, row * STRIDE + piece, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                }
                [[unroll]] for (uint i = 0u; i < COLUMNS; i++) {
                    uint column = 3u * TILE_M + p * TILE_N + own_column + SIDE * i;
                    coopMatLoad(b[p][i], tile, column * STRIDE + piece, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
                }
            }
            if (d == 0u) {
                fetch(following);
            }
            // All subgroups have loaded their last matrices: the next tiles are stored while those are multiplied.
            if (d == 64u / TERMS - 1u) {
                barrier();
                store();
            }
            [[unroll]] for (uint p = 0u; p < 3u; p++) {
                [[unroll]] for (uint o = 0u; o < 3u; o++) {
                    [[unroll]] for (uint i = 0u; i < 2u * COLUMNS; i++) {
                        uint row = i / COLUMNS, column = i % COLUMNS;
                        sum[p + o][row][column] = coopMatMulAdd(a[p][row], b[o][column], sum[p + o][row][column]);
                    }
                }
            }
        }
        barrier();
    }

    // Results pass through shared memory, so that whole rows are read and written. With a stride of 0 every column is the rows'
    // numbers, or every row the columns'.
    [[unroll]] for (uint i = 0u; i < 2u * COLUMNS; i++) {
        uint own_i = i / COLUMNS, own_j = i % COLUMNS;
        SUM row, column;
        FLOATS found;
        coopMatLoad(row, of_rows, own_row + own_i * SIDE, 0u, gl_CooperativeMatrixLayoutColumnMajor);
        coopMatLoad(column, of_columns, own_column + own_j * SIDE, 0u, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint e = 0u; e < found.length(); e++) {
            float own = assembled_digits(sum[0][own_i][own_j][e], sum[1][own_i][own_j][e], sum[2][own_i][own_j][e],
                                         sum[3][own_i][own_j][e], sum[4][own_i][own_j][e], row[e] + column[e] - 44);
            bool finite = row[e] != NOT_FINITE && column[e] != NOT_FINITE;
            found[e] = finite ? own : uintBitsToFloat(0x7fc00000u);
        }
        uint place = (own_row + own_i * SIDE) * OUT_STRIDE + (own_column + own_j * SIDE) * 4u / PIECE_BYTES;
        coopMatStore(found, tile, place, OUT_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    }
    barrier();
    for (uint i = me; i < TILE_M * TILE_N / 4u; i += 256u) {
        uint row = first_row + i / (TILE_N / 4u);
        uint quad = first_column / 4u + i % (TILE_N / 4u);
        if (row < rows && 4u * quad < push.n) {
            uint place = i / (TILE_N / 4u) * OUT_STRIDE + i % (TILE_N / 4u) * (16u / PIECE_BYTES);
#ifdef EIGHTS
            vec4 found = uintBitsToFloat(uvec4(tile[place], tile[place + 1u]));
#else
            vec4 found = uintBitsToFloat(tile[place]);
#endif
            y[(row * push.y_columns + push.column) / 4u + quad] = finished(found, row, quad);
        }
    }
}
