#version 460
// Computes: y = (h - u mean(h u)) / d, h = g weight, u = x / d, d = sqrt(mean(x^2) + eps); all [rows, columns].
// Grid: x = ceil(rows / (256 / LANES)), continued along y.
// Reduction order: by held-rows.glsl, fixed by the columns: quads of a lane, then lanes.
// Assumes: QUADS cover the row if HELD; with VECTOR, columns are a multiple of 4.
#include "rows/norm-gradient.glsl"

void main() {
    OWN_ROW

    vec4 squares = vec4(0.0), products = vec4(0.0);
    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 quad, h;
        load(start, i, columns, h, quad);
        squares = fma(quad, quad, squares);
        products = fma(h, quad, products);
    }
    vec2 moments = totals(vec2(sum_of(squares), sum_of(products))) / float(push.columns);
    float scale = 1.0 / sqrt(moments.x + push.eps);
    float slope = moments.y * scale * scale;

    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 quad, h;
        reload(start, i, columns, h, quad);
        store_y(start, i, columns, (h - quad * slope) * scale);
    }
}
