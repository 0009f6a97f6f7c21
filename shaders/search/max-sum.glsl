#version 460
// Computes: y[i, j] = sum over the rows t of part i of max over the columns u of part j of x[t, u]; EMPTY for a part without columns,
// else 0 for one without rows.
// Grid: x = parts of columns, continued along z, y = parts of rows.
// Reduction order: the rows of a part from its first; a maximum has no order.
// Assumes: fewer than 2^32 elements.
//# numerics = ["run", "everywhere"]
#extension GL_EXT_control_flow_attributes : require
#include "numbers.glsl"

layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer RowStarts { uint row_starts[]; };
layout(std430, binding = 2) readonly buffer ColumnStarts { uint column_starts[]; };
layout(std430, binding = 3) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
    // Columns of x.
    uint columns;
    uint column_parts;
} push;

#define NONE uintBitsToFloat(0xff800000u)
// The sum of a part without columns.
#define EMPTY -1e9

// Rows that are met together.
const uint ROWS = 8u;
shared float largest[ROWS * 64u];

void main() {
    uint me = gl_LocalInvocationIndex;
    uint i = gl_WorkGroupID.y, j = gl_WorkGroupID.z * 65535u + gl_WorkGroupID.x;
    if (j >= push.column_parts) {
        return;
    }
    uint first = column_starts[j], end = column_starts[j + 1u], last = row_starts[i + 1u];
    float total = 0.0;
    for (uint row = row_starts[i]; row < last; row += ROWS) {
        float most[ROWS];
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            most[r] = NONE;
        }
        for (uint column = first + me; column < end; column += 64u) {
            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                most[r] = nan_max(most[r], SETTLED(x[min(row + r, last - 1u) * push.columns + column]));
            }
        }
        barrier();
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            largest[r * 64u + me] = most[r];
        }
        barrier();
        for (uint reach = 32u; reach > 0u; reach /= 2u) {
            if (me < reach) {
                [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                    largest[r * 64u + me] = nan_max(largest[r * 64u + me], largest[r * 64u + me + reach]);
                }
            }
            barrier();
        }
        for (uint r = 0u; r < min(ROWS, last - row); r++) {
            total += largest[r * 64u];
        }
    }
    if (me == 0u) {
        y[i * push.column_parts + j] = first == end ? EMPTY : CANONICAL(total);
    }
}
