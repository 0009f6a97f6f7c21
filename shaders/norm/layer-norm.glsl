#version 460
// Computes: y = (x - mean) / sqrt(var + eps) * weight + bias; x, y [rows, columns], weight, bias [columns]; with RESIDUAL,
// of x + residual; with MOMENTS, y [rows, 2] = mean, 1 / sqrt(var + eps); with QUANTIZED, as integers: normed-integers.glsl.
// Grid: x = ceil(rows / (256 / LANES)), continued along y.
// Reduction order: by held-rows.glsl, fixed by the columns: quads of a lane, then lanes. Mean first, then variance.
// Assumes: QUADS cover the row if HELD; with VECTOR, columns are a multiple of 4.
//# stored = ["float32", "float16", "bfloat16"]
//# numerics = ["run", "everywhere"]
//#
//# [builds]
//# residual-layer-norm = { define = "RESIDUAL", numerics = ["run"] }  # a fused operation
//# layer-norm-quantize-rows = { define = "QUANTIZED", numerics = ["run"] }
//# layer-norm-moments = { define = "MOMENTS", numerics = ["run"] }  # what layer-norm-linear normalises by
#include "rows/normed-rows.glsl"

#ifdef MOMENTS
layout(std430, binding = NEXT) writeonly buffer Y { vec2 y[]; };
#else
INPUT_ROWS(NEXT, weight, vec4)
INPUT_ROWS(NEXT + 1, bias, vec4)
#ifdef QUANTIZED
#define LAST NEXT + 2
#else
OUTPUT_ROWS(NEXT + 2, y, QUAD)
#endif
#endif

layout(push_constant) uniform Push {
    ROW_MEMBERS
    float eps;
} push;

#ifdef QUANTIZED
// The result of a group of columns, given the mean and 1 / sqrt(var + eps).
vec4 normal_of(vec4 quad, uint i, uint columns, vec2 moments) {
    vec4 normal = (quad - moments.x) * moments.y;
    return fma(normal, load_weight(0u, i, columns), load_bias(0u, i, columns));
}
#include "rows/normed-integers.glsl"
#endif

void main() {
    OWN_ROW

    vec4 sum = vec4(0.0);
    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 quad = within(load_row(start, i, columns), i, columns, 0.0);
        hold(i, quad);
        ADD_TERMS(sum, quad);
    }
    float mean = QUOTIENT(total(sum_of(sum)), float(push.columns));

    vec4 squares = vec4(0.0);
    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 quad = HELD ? held[i] : load_row(start, i, columns);
        vec4 centred = within(quad - mean, i, columns, 0.0);
        ADD_SQUARES(squares, centred);
    }
    float deviation = sqrt(QUOTIENT(total(sum_of(squares)), float(push.columns)) + SETTLED(push.eps));
    float scale = QUOTIENT(1.0, deviation);

#ifdef MOMENTS
    if (lane() == 0u && columns > 0u) {
        y[row] = vec2(mean, scale);
    }
#elif defined(QUANTIZED)
    end_row(row, columns, count, vec2(mean, scale));
#else
    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 quad = HELD ? held[i] : load_row(start, i, columns);
        vec4 normal = PRODUCT(quad - mean, scale);
        store_y(start, i, columns, SETTLED_FMA(normal, load_weight(0u, i, columns), load_bias(0u, i, columns)));
    }
#endif
}
