#version 460
// Computes: y = (h - mean(h) - u mean(h u)) / d, h = g weight, u = (x - mean(x)) / d, d = sqrt(var(x) + eps); [rows, columns].
// With RMS both means are 0: y = (h - u mean(h u)) / d, u = x / d, d = sqrt(mean(x^2) + eps).
// Grid: x = ceil(rows / (256 / LANES)), continued along y.
// Reduction order: by held-rows.glsl, fixed by the columns: quads, sums, groups of sums. Means, then centred values.
// Assumes: QUADS cover the row if HELD; with VECTOR, columns are a multiple of 4.
//# stored = ["float32", "float16", "bfloat16"]
//#
//# [builds]
//# rms-norm-backward = { define = "RMS", stored = ["float32"] }
#include "rows/norm-gradient.glsl"
DECLARE_TOTALS

void main() {
    OWN_ROW
    float n = float(push.columns);
    vec2 means = vec2(0.0);

#ifndef RMS
    DECLARE_SUMS(sum_x)
    DECLARE_SUMS(sum_h)
    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 quad, h;
        load(start, i, columns, h, quad);
        ADD_TERMS(sum_x, i, quad);
        ADD_TERMS(sum_h, i, h);
    }
    means = totals(sum_x, sum_h) / n;
#endif

    DECLARE_SUMS(squares)
    DECLARE_SUMS(products)
    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 quad, h;
#ifdef RMS
        load(start, i, columns, h, quad);
#else
        reload(start, i, columns, h, quad);
        h = within(h, i, columns, 0.0);
#endif
        vec4 centred = within(quad - means.x, i, columns, 0.0);
        ADD_SQUARES(squares, i, centred);
        ADD_PRODUCTS(products, i, h, centred);
    }
    vec2 moments = totals(squares, products) / n;
    float scale = 1.0 / sqrt(moments.x + push.eps);
    float slope = moments.y * scale * scale;

    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 quad, h;
        reload(start, i, columns, h, quad);
        store_y(start, i, columns, (h - means.y - (quad - means.x) * slope) * scale);
    }
}
