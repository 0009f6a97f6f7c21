#version 460
// Computes: y = x / max(|x|, eps), |x| the Euclidean norm of a row; x, y [rows, columns].
// Grid: x = ceil(rows / (256 / LANES)).
// Reduction order: lane i sums squares of columns i, i + LANES, ...; lanes then sum as a tree.
// Assumes: LANES is a power of two up to 256.
#extension GL_GOOGLE_include_directive : require
#include "counts.glsl"
#include "numbers.glsl"
#include "row-sum.glsl"

layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
    uint rows_of;
    uint rows;
    uint columns;
    float eps;
} push;

void main() {
    uint row = own_row();
    uint columns = row < batch_rows(push.rows_of, push.rows) ? push.columns : 0u;
    uint start = row * push.columns;

    float squares = 0.0;
    for (uint c = lane(); c < columns; c += LANES) {
        squares = fma(x[start + c], x[start + c], squares);
    }
    float divisor = nan_max(sqrt(row_sum(squares)), push.eps);
    for (uint c = lane(); c < columns; c += LANES) {
        y[start + c] = x[start + c] / divisor;
    }
}
