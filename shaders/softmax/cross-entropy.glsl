#version 460
// Computes: y = (1 - s) w[t] (l - x[t]) + s / C sum w (l - x), l = log sum e^x, t = targets, 0 if -1; x [rows, C], y [rows].
// Grid: x = ceil(rows / (256 / LANES)), continued along y.
// Reduction order: by held-rows.glsl, fixed by the columns: quads, sums, groups of sums.
// Assumes: QUADS cover the row if HELD; with VECTOR, columns are a multiple of 4; targets below C or -1, that is 2^32 - 1.
#define X 1
#include "rows/cross-entropy-rows.glsl"

layout(std430, binding = 4) writeonly buffer Y { float y[]; };

void main() {
    OWN_ROW
    float shift = largest_x(start, count, columns);

    DECLARE_SUMS(sum)
    DECLARE_SUMS(weights)
    DECLARE_SUMS(products)
    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 quad = HELD ? held[i] : load_x(start, i, columns);
        quad -= shift;
        ADD_TERMS(sum, i, within(exponentials(quad), i, columns, 0.0));
        if (SMOOTHED) {
            vec4 w = WEIGHTED ? load_weight(0u, i, columns) : vec4(1.0);
            ADD_TERMS(weights, i, within(w, i, columns, 0.0));
            ADD_TERMS(products, i, within(w * quad, i, columns, 0.0));
        }
    }
    vec2 sums = totals(sum, weights);
    float log_sum = logarithm(sums.x);
    float smooth_part = 0.0;
    if (SMOOTHED) {
        smooth_part = push.label_smoothing / float(push.columns) * (log_sum * sums.y - total(products));
    }
    if (lane() == 0u && row < batch_rows(push.rows_of, push.rows)) {
        uint target = targets[row];
        float loss = 0.0;
        if (target < columns) {
            float w = WEIGHTED ? weight[target] : 1.0;
            loss = (1.0 - push.label_smoothing) * w * (log_sum - (x[start + target] - shift)) + smooth_part;
        }
        y[row] = loss;
    }
}
