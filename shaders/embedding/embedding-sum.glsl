#version 460
// Computes: y[t] = sum of up to three table_i[index_i[t]]; y [rows, columns], index_i [rows], table_i [*, columns].
// Grid: x = ceil(rows / 4); 64 invocations walk over the columns of each row.
// Reduction order: y (with ACCUMULATE), then the tables in order.
// Assumes: indices lie inside their tables; SLICED has one table, of which rows first .. first + slice_rows are bound.
#extension GL_GOOGLE_include_directive : require
#include "counts.glsl"

layout(local_size_x = 64, local_size_y = 4) in;
layout(constant_id = 0) const uint TERMS = 3;
layout(constant_id = 1) const bool ACCUMULATE = false;
layout(constant_id = 2) const bool SLICED = false;

layout(std430, binding = 1) readonly buffer Index0 { uint index_0[]; };
layout(std430, binding = 2) readonly buffer Table0 { float table_0[]; };
layout(std430, binding = 3) readonly buffer Index1 { uint index_1[]; };
layout(std430, binding = 4) readonly buffer Table1 { float table_1[]; };
layout(std430, binding = 5) readonly buffer Index2 { uint index_2[]; };
layout(std430, binding = 6) readonly buffer Table2 { float table_2[]; };
layout(std430, binding = 7) buffer Y { float y[]; };

layout(push_constant) uniform Push {
    uint rows_of;
    uint rows;
    uint columns;
    uint first;
    uint slice_rows;
} push;

void main() {
    uint row = gl_WorkGroupID.x * 4u + gl_LocalInvocationID.y;
    if (row >= batch_rows(push.rows_of, push.rows)) {
        return;
    }
    // Unsigned: a row before the slice wraps to a large number and is left to another slice too.
    uint source = index_0[row] - push.first;
    if (SLICED && source >= push.slice_rows) {
        return;
    }
    for (uint c = gl_LocalInvocationID.x; c < push.columns; c += 64u) {
        float sum = table_0[source * push.columns + c];
        if (ACCUMULATE) {
            sum = y[row * push.columns + c] + sum;
        }
        if (TERMS > 1u) {
            sum += table_1[index_1[row] * push.columns + c];
        }
        if (TERMS > 2u) {
            sum += table_2[index_2[row] * push.columns + c];
        }
        y[row * push.columns + c] = sum;
    }
}
