#version 460
// Computes: partial [blocks, 2, columns], the sums over 64 rows of g (x - mean) scale and of g; g, x [rows, columns], moments
// [rows, 2] = mean, scale. With JOIN, by_weight and by_bias [columns], their sums over `rows` blocks.
// Grid: x = blocks * ceil(columns / 64), with JOIN of one block, continued along y; 256 = 4 lanes x 64 columns.
// Reduction order: lane i takes rows, or blocks, i, i + 4, ... in order; then lanes as a tree.
// Assumes: moments are those of x.
//# stored = ["float32", "float16", "bfloat16"]
//#
//# [builds]
//# layer-norm-weight-backward-join = { define = "JOIN", stored = ["float32"] }
#include "counts.glsl"
#include "stored.glsl"

layout(local_size_x = 256) in;
const uint COLUMNS = 64u, LANES = 4u, ROWS = 64u;

#ifdef JOIN
layout(std430, binding = 1) readonly buffer Partial { float partial[]; };
layout(std430, binding = 2) writeonly buffer ByWeight { float by_weight[]; };
layout(std430, binding = 3) writeonly buffer ByBias { float by_bias[]; };
#else
INPUT(1, g, QUAD)
INPUT(2, x, QUAD)
layout(std430, binding = 3) readonly buffer Moments { vec2 moments[]; };
layout(std430, binding = 4) writeonly buffer Partial { float partial[]; };
#endif

ROW_PUSH

shared vec2 of_lanes[256];

// What row, or block, k adds to the sums.
vec2 part(uint k, uint column) {
#ifdef JOIN
    uint at = 2u * k * push.columns + column;
    return vec2(partial[at], partial[at + push.columns]);
#else
    uint at = k * push.columns + column;
    vec2 moment = moments[k];
    float gradient = NUMBER(g, at);
    return vec2(gradient * ((NUMBER(x, at) - moment.x) * moment.y), gradient);
#endif
}

void main() {
    uint me = gl_LocalInvocationIndex, lane = me / COLUMNS;
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint across = (push.columns + COLUMNS - 1u) / COLUMNS;
    uint block = group / across, column = group % across * COLUMNS + me % COLUMNS;
    uint rows = batch_rows(push.rows_of, push.rows);
#ifdef JOIN
    uint first = 0u, end = rows;
    bool there = column < push.columns && block == 0u;
#else
    uint first = block * ROWS, end = min(first + ROWS, rows);
    bool there = column < push.columns && first < end;
#endif
    // Invocations without a column take part in the barrier with nothing to add.
    vec2 sum = vec2(0.0);
    if (there) {
        for (uint k = first + lane; k < end; k += LANES) {
            sum += part(k, column);
        }
    }
    of_lanes[me] = sum;
    barrier();
    if (lane > 0u || !there) {
        return;
    }
    sum = (sum + of_lanes[me + 2u * COLUMNS]) + (of_lanes[me + COLUMNS] + of_lanes[me + 3u * COLUMNS]);
#ifdef JOIN
    by_weight[column] = sum.x;
    by_bias[column] = sum.y;
#else
    uint at = 2u * block * push.columns + column;
    partial[at] = sum.x;
    partial[at + push.columns] = sum.y;
#endif
}
