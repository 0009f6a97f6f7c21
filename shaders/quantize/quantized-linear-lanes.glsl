#version 460
// Computes: y = act(s (1 / scale[m]) + bias[n]) + residual[m, n], s = sum_k (q[m, k] - zero[m]) weight[n, k] (1 /
// weight_scale[n]), of few rows, or without matrix cores: quantized-interface.glsl.
// Grid: x = ceil(n / 4 / (256 / LANES)), y = ceil(rows / ROWS), continued along z: LANES invocations share four columns of ROWS rows.
// Reduction order: irrelevant; sums of integers are exact.
// Assumes: k a multiple of 16, k < 2^17, with PAIRS 2^16, n of 4; ROWS at most LANES.
//# # Where rows are no multiple of sixteen bytes, or a weight has groups, `quantized-linear` runs.
//# stored = ["float32", "float16"]
//# numerics = ["run", "everywhere"]
//# made_of = { push = "Product", constants = "Tile" }
//# variants = [{ needs = ["integer_dot_product"], when = ["n % 4", "k % 16", "k >= 16"] }]
#extension GL_EXT_control_flow_attributes : require
#include "counts.glsl"
#include "levels.glsl"
#define WEIGHT 3
#include "product/dot.glsl"
#include "product/product-push.glsl"
#include "product/quantized-interface.glsl"
#include "product/sixteen.glsl"
layout(std430, binding = 6) readonly buffer Residual { QUAD residual[]; };
layout(std430, binding = 7) writeonly buffer Y { QUAD y[]; };

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint ROWS = 1;
layout(constant_id = 1) const uint LANES = 32;

const uint SUMS = 4u * ROWS;
// The sums of each invocation, one more apart so that neighbours use different banks, and those of a row's lanes.
shared int parts[256u * (SUMS + 1u)];
shared int totals[256u / LANES * SUMS];
// Factors and addends of columns, and factors of rows.
shared vec2 of_columns[4u * (256u / LANES)];
shared float of_rows[ROWS];

// Byte j of word i as byte i of word j.
uvec4 transposed(uvec4 x) {
    uvec2 even = (x.xz & 0x00ff00ffu) | (x.yw & 0x00ff00ffu) << 8u;
    uvec2 odd = ((x.xz >> 8u) & 0x00ff00ffu) | (x.yw & 0xff00ff00u);
    return uvec4((even.x & 0xffffu) | even.y << 16u, (odd.x & 0xffffu) | odd.y << 16u, even.x >> 16u | (even.y & 0xffff0000u),
                 odd.x >> 16u | (odd.y & 0xffff0000u));
}

// Four of sixteen codes, one per byte: int8 themselves, 0, 1 and 2 of ternary values, which are transposed, 0 and 1 of signs.
uint codes_of(uvec4 stored, uint i) {
    if (LEVELS == INT8) {
        return stored[i];
    }
    if (LEVELS == TERNARY) {
        return (stored.x >> (2u * i)) & 0x03030303u;
    }
    uint codes = bitfieldExtract(stored.x, int(4u * i), 4);
    return (codes | codes << 7u | codes << 14u | codes << 21u) & 0x01010101u;
}

// The sum of values, of the sum of their codes and that of ones: both times q.
int value_of(int codes, int ones) {
    return LEVELS == INT8 ? codes : LEVELS == TERNARY ? codes - ones : 2 * codes - ones;
}

void main() {
    uint rows = batch_rows(push.rows_of, push.rows);
    uint lane = gl_LocalInvocationIndex % LANES;
    uint group = gl_LocalInvocationIndex / LANES;
    uint quad = gl_WorkGroupID.x * (256u / LANES) + group;
    uint row_quads = push.n / 4u;
    uint sixteens = push.k / 16u;
    uint first_row = group_y() * ROWS;
    // Past the last row and column, the last is repeated and not written.
    uint column = 4u * min(quad, row_quads - 1u);
    int sum[ROWS][4];
    int own[ROWS];
    int column_sum[4];
    uint row_at[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        [[unroll]] for (uint c = 0u; c < 4u; c++) {
            sum[r][c] = 0;
        }
        own[r] = 0;
        row_at[r] = min(first_row + r, rows - 1u) * sixteens;
    }
    [[unroll]] for (uint c = 0u; c < 4u; c++) {
        column_sum[c] = 0;
    }
    if (lane < 4u) {
        of_columns[4u * group + lane] = vec2(column_factor_of(column + lane), bias_of(column + lane));
    }
    if (gl_LocalInvocationIndex < ROWS) {
        of_rows[gl_LocalInvocationIndex] = row_factor_of(min(first_row + gl_LocalInvocationIndex, rows - 1u));
    }
    for (uint at = lane; at < sixteens; at += LANES) {
        uvec4 stored[4];
        [[unroll]] for (uint c = 0u; c < 4u; c++) {
            stored[c] = sixteen((column + c) * sixteens + at);
        }
        uvec4 x[ROWS];
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            x[r] = q[row_at[r] + at];
            if (LEVELS == TERNARY) {
                x[r] = transposed(x[r]);
            }
        }
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            [[unroll]] for (uint c = 0u; c < 4u; c++) {
                uint codes = codes_of(stored[c], i);
                [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                    sum[r][c] += signed_dot(x[r][i], codes, 0u);
                }
                if (PAIRS) {
                    column_sum[c] += value_of(sum_of_bytes(codes), 4);
                }
            }
            if (LEVELS != INT8) {
                [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                    own[r] += sum_of_bytes(x[r][i]);
                }
            }
        }
    }
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        int zero = zero_of(min(first_row + r, rows - 1u));
        [[unroll]] for (uint c = 0u; c < 4u; c++) {
            parts[gl_LocalInvocationIndex * (SUMS + 1u) + 4u * r + c] = value_of(sum[r][c], own[r]) - zero * column_sum[c];
        }
    }
    barrier();
    for (uint i = lane; i < SUMS; i += LANES) {
        int total = 0;
        for (uint other = 0u; other < LANES; other++) {
            total += parts[(group * LANES + other) * (SUMS + 1u) + i];
        }
        totals[group * SUMS + i] = total;
    }
    barrier();
    uint row = first_row + lane;
    if (lane < ROWS && row < rows && quad < row_quads) {
        uint at = row * row_quads + quad;
        vec4 found;
        for (uint c = 0u; c < 4u; c++) {
            vec2 of_column = of_columns[4u * group + c];
            precise float scaled = PRODUCT(float(totals[group * SUMS + 4u * lane + c]), of_column.x);
            found[c] = finished(scaled, of_rows[lane], of_column.y);
        }
        y[at] = narrow(RESIDUAL ? found + wide(residual[at]) : found);
    }
}
