#version 460
// Computes: y[t] = sum of up to three table_i[index_i[t]]; y [rows, columns], index_i [rows], table_i [*, columns].
// Grid: x = ceil(rows / 4), continued along z; 64 invocations loop over the columns of each row, with VECTOR four columns at a time.
// Reduction order: y (with ACCUMULATE), then the tables in order.
// Assumes: indices are inside their tables; SLICED has one table, of which rows first .. first + slice_rows are bound.
//# stored = ["float32", "float16", "bfloat16"]
//# numerics = ["run", "everywhere"]
#extension GL_EXT_control_flow_attributes : require
#include "counts.glsl"
#include "stored.glsl"

layout(local_size_x = 64, local_size_y = 4) in;
layout(constant_id = 0) const uint TERMS = 3;
layout(constant_id = 1) const bool ACCUMULATE = false;
layout(constant_id = 2) const bool SLICED = false;
ALIGNED_ROWS(VECTOR, 3);
// Groups of four columns that an invocation loads at once.
const uint FLIGHT = 4u;

layout(std430, binding = 1) readonly buffer Index0 { uint index_0[]; };
INPUT(2, table_0, QUAD)
layout(std430, binding = 3) readonly buffer Index1 { uint index_1[]; };
INPUT(4, table_1, QUAD)
layout(std430, binding = 5) readonly buffer Index2 { uint index_2[]; };
INPUT(6, table_2, QUAD)
layout(std430, binding = 7) buffer Y { float y[]; };
layout(std430, binding = 7) buffer Y4 { QUAD y_4[]; };

layout(push_constant) uniform Push {
    ROW_MEMBERS
    uint first;
    uint slice_rows;
} push;

// A sum that is continued is none of the operands, which are settled.
#ifdef EVERYWHERE
#define BEFORE(WIDE, SUM) SUM
#else
#define BEFORE(WIDE, SUM) WIDE(SUM)
#endif

// Declares SUMS: a row's sum in column `place` of `width`, or in quads of columns, from views of the tables and of y.
#define SUM(SUMS, Value, WIDE, TABLE_0, TABLE_1, TABLE_2, Y)                                                           \
    Value SUMS(uint row, uint source, uint place, uint width) {                                                        \
        Value sum = WIDE(TABLE_0[source * width + place]);                                                             \
        if (ACCUMULATE) {                                                                                              \
            sum = BEFORE(WIDE, Y[row * width + place]) + sum;                                                                  \
        }                                                                                                              \
        if (TERMS > 1u) {                                                                                              \
            sum += WIDE(TABLE_1[index_1[row] * width + place]);                                                        \
        }                                                                                                              \
        if (TERMS > 2u) {                                                                                              \
            sum += WIDE(TABLE_2[index_2[row] * width + place]);                                                        \
        }                                                                                                              \
        return sum;                                                                                                    \
    }

SUM(four, vec4, wide, table_0_4, table_1_4, table_2_4, y_4)
SUM(one, float, SETTLED, table_0, table_1, table_2, y)

void in_fours(uint row, uint source) {
    uint quads = push.columns / 4u;
    vec4 sums[FLIGHT];
    for (uint quad = gl_LocalInvocationID.x; quad < quads; quad += 64u * FLIGHT) {
        // Past the row's end, its last quad is repeated.
        [[unroll]] for (uint i = 0u; i < FLIGHT; i++) {
            sums[i] = four(row, source, min(quad + 64u * i, quads - 1u), quads);
        }
        [[unroll]] for (uint i = 0u; i < FLIGHT; i++) {
            if (quad + 64u * i < quads) {
                y_4[row * quads + quad + 64u * i] = narrow(sums[i]);
            }
        }
    }
}

void main() {
    uint row = group_x() * 4u + gl_LocalInvocationID.y;
    if (row >= batch_rows(push.rows_of, push.rows)) {
        return;
    }
    // Unsigned: a row before the slice wraps to a large number and is also left to another slice.
    uint source = index_0[row] - push.first;
    if (SLICED && source >= push.slice_rows) {
        return;
    }
    if (VECTOR) {
        in_fours(row, source);
        return;
    }
    for (uint c = gl_LocalInvocationID.x; c < push.columns; c += 64u) {
        y[row * push.columns + c] = CANONICAL(one(row, source, c, push.columns));
    }
}
