#version 460
// Computes: y[t] = sum of up to three table_i[index_i[t]]; y [rows, columns], index_i [rows], table_i [*, columns].
// Grid: x = ceil(rows / 4); 64 invocations walk over the columns of each row, one or four at a time.
// Reduction order: y (with ACCUMULATE), then the tables in order.
// Assumes: indices lie inside their tables; SLICED has one table, of which rows first .. first + slice_rows are bound.
#extension GL_GOOGLE_include_directive : require
#include "counts.glsl"
#include "stored.glsl"

layout(local_size_x = 64, local_size_y = 4) in;
layout(constant_id = 0) const uint TERMS = 3;
layout(constant_id = 1) const bool ACCUMULATE = false;
layout(constant_id = 2) const bool SLICED = false;
ALIGNED_ROWS(VECTOR, 3);

layout(std430, binding = 1) readonly buffer Index0 { uint index_0[]; };
layout(std430, binding = 2) readonly buffer Table0 { float table_0[]; };
layout(std430, binding = 2) readonly buffer Table04 { QUAD table_0_4[]; };
layout(std430, binding = 3) readonly buffer Index1 { uint index_1[]; };
layout(std430, binding = 4) readonly buffer Table1 { float table_1[]; };
layout(std430, binding = 4) readonly buffer Table14 { QUAD table_1_4[]; };
layout(std430, binding = 5) readonly buffer Index2 { uint index_2[]; };
layout(std430, binding = 6) readonly buffer Table2 { float table_2[]; };
layout(std430, binding = 6) readonly buffer Table24 { QUAD table_2_4[]; };
layout(std430, binding = 7) buffer Y { float y[]; };
layout(std430, binding = 7) buffer Y4 { QUAD y_4[]; };

layout(push_constant) uniform Push {
    uint rows_of;
    uint rows;
    uint columns;
    uint first;
    uint slice_rows;
} push;

// Four columns of a row, or one.
#define LOAD(NAME, SCALARS, VECTORS)                                                                                   \
    vec4 NAME(uint row, uint column) {                                                                                 \
        uint at = row * push.columns + column;                                                                         \
        return VECTOR ? wide(VECTORS[at / 4u]) : vec4(SCALARS[at], 0.0, 0.0, 0.0);                                     \
    }
LOAD(load_0, table_0, table_0_4)
LOAD(load_1, table_1, table_1_4)
LOAD(load_2, table_2, table_2_4)
LOAD(load_y, y, y_4)

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
    const uint STEP = VECTOR ? 4u : 1u;
    for (uint c = STEP * gl_LocalInvocationID.x; c < push.columns; c += STEP * 64u) {
        vec4 sum = load_0(source, c);
        if (ACCUMULATE) {
            sum = load_y(row, c) + sum;
        }
        if (TERMS > 1u) {
            sum += load_1(index_1[row], c);
        }
        if (TERMS > 2u) {
            sum += load_2(index_2[row], c);
        }
        uint at = row * push.columns + c;
        if (VECTOR) {
            y_4[at / 4u] = narrow(sum);
        } else {
            y[at] = sum.x;
        }
    }
}
