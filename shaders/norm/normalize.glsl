#version 460
// Computes: y = x / max(|x|, eps) or x / (|x| + eps), |x| the Euclidean norm of a row; x, y [rows, columns].
// Grid: x = ceil(rows / (256 / LANES)), or less: workgroups go on to later rows.
// Reduction order: lane i sums squares of columns i, i + LANES, ... (VECTOR: of four columns each); lanes sum as a tree.
// Assumes: LANES is a power of two up to 256; with VECTOR, columns are a multiple of 4.
#extension GL_GOOGLE_include_directive : require
#include "counts.glsl"
#include "numbers.glsl"
#include "row-sum.glsl"

layout(constant_id = 1) const bool VECTOR = false;
// As `Floor`: 0 max, 1 add.
layout(constant_id = 2) const uint FLOOR = 0;

layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer X4 { vec4 x_4[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };
layout(std430, binding = 2) writeonly buffer Y4 { vec4 y_4[]; };

layout(push_constant) uniform Push {
    uint rows_of;
    uint rows;
    uint columns;
    float eps;
} push;

// Every invocation of the workgroup must call it.
void normalize_row(uint row, uint columns) {
    uint start = row * push.columns;
    float squares = 0.0;
    if (VECTOR) {
        vec4 sums = vec4(0.0);
        for (uint c = lane(); c < columns / 4u; c += LANES) {
            vec4 value = x_4[start / 4u + c];
            sums = fma(value, value, sums);
        }
        squares = (sums.x + sums.y) + (sums.z + sums.w);
    } else {
        for (uint c = lane(); c < columns; c += LANES) {
            squares = fma(x[start + c], x[start + c], squares);
        }
    }
    float norm = sqrt(row_sum(squares));
    float divisor = FLOOR == 0u ? nan_max(norm, push.eps) : norm + push.eps;
    if (VECTOR) {
        for (uint c = lane(); c < columns / 4u; c += LANES) {
            y_4[start / 4u + c] = x_4[start / 4u + c] / divisor;
        }
    } else {
        for (uint c = lane(); c < columns; c += LANES) {
            y[start + c] = x[start + c] / divisor;
        }
    }
}

void main() {
    uint rows = batch_rows(push.rows_of, push.rows);
    // The same number of turns for every invocation, as barriers need.
    uint turn = gl_NumWorkGroups.x * (256u / LANES);
    uint last = rows + gl_LocalInvocationIndex / LANES;
    for (uint row = own_row(); row < last; row += turn) {
        normalize_row(row, row < rows ? push.columns : 0u);
    }
}
