#version 460
// Computes: y = (x - mean) / sqrt(var + eps) * weight + bias; x, y [rows, columns], weight, bias [columns].
// Grid: x = ceil(rows / (256 / LANES)).
// Reduction order: lane i sums columns i, i + LANES, ...; lanes then sum as a tree. Mean first, then variance.
// Assumes: LANES is a power of two up to 256; columns > 0.
#extension GL_GOOGLE_include_directive : require
#include "counts.glsl"
#include "row-sum.glsl"

layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) readonly buffer Weight { float weight[]; };
layout(std430, binding = 3) readonly buffer Bias { float bias[]; };
layout(std430, binding = 4) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
    uint rows_of;
    uint rows;
    uint columns;
    float eps;
} push;

void main() {
    uint row = own_row();
    // Rows past the end take part in the barriers with nothing to add.
    uint columns = row < batch_rows(push.rows_of, push.rows) ? push.columns : 0u;
    uint start = row * push.columns;

    float sum = 0.0;
    for (uint c = lane(); c < columns; c += LANES) {
        sum += x[start + c];
    }
    float mean = row_sum(sum) / float(push.columns);

    float squares = 0.0;
    for (uint c = lane(); c < columns; c += LANES) {
        float centred = x[start + c] - mean;
        squares = fma(centred, centred, squares);
    }
    float deviation = sqrt(row_sum(squares) / float(push.columns) + push.eps);
    float scale = 1.0 / deviation;

    for (uint c = lane(); c < columns; c += LANES) {
        y[start + c] = fma((x[start + c] - mean) * scale, weight[c], bias[c]);
    }
}
