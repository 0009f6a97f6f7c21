#version 460
// Computes: y = g ((1 - s) w[t] (p - onehot(t)) + s / C (p sum(w) - w)), p = softmax(x), t = targets, 0 if -1; y, x [rows, C].
// Grid: x = ceil(rows / (256 / LANES)), continued along y.
// Reduction order: by held-rows.glsl, fixed by the columns: quads, sums, groups of sums.
// Assumes: QUADS cover the row if HELD; with VECTOR, columns are a multiple of 4; targets below C or -1, that is 2^32 - 1.
#define X 2
#include "rows/cross-entropy-rows.glsl"

layout(std430, binding = 1) readonly buffer G { float g[]; };
OUTPUT_ROWS(5, y, vec4)

void main() {
    OWN_ROW
    float shift = largest_x(start, count, columns);

    DECLARE_SUMS(sum)
    DECLARE_SUMS(weights)
    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 quad = HELD ? held[i] : load_x(start, i, columns);
        quad = exponentials(quad - shift);
        hold(i, quad);
        ADD_TERMS(sum, i, within(quad, i, columns, 0.0));
        if (SMOOTHED) {
            vec4 w = WEIGHTED ? load_weight(0u, i, columns) : vec4(1.0);
            ADD_TERMS(weights, i, within(w, i, columns, 0.0));
        }
    }
    vec2 sums = totals(sum, weights);
    float scale = 1.0 / sums.x;

    uint target = columns > 0u ? targets[row] : 0xffffffffu;
    float gradient = columns > 0u ? g[row] : 0.0;
    float own = target < columns ? (WEIGHTED ? weight[target] : 1.0) : 0.0;
    own *= 1.0 - push.label_smoothing;
    float others = push.label_smoothing / float(push.columns);

    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 quad = HELD ? held[i] : exponentials(load_x(start, i, columns) - shift);
        vec4 p = quad * scale;
        vec4 value = own * (p - mix(vec4(0.0), vec4(1.0), equal(columns_of(i), uvec4(target))));
        if (SMOOTHED) {
            value += others * (p * sums.y - (WEIGHTED ? load_weight(0u, i, columns) : vec4(1.0)));
        }
        store_y(start, i, columns, target < columns ? gradient * value : vec4(0.0));
    }
}
