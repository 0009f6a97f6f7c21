#version 460
// Computes: y = (x - mean) / sqrt(var + eps) * weight + bias; x, y [rows, columns], weight, bias [columns]; with RESIDUAL,
// of x + residual; with MOMENTS, y [rows, 2] = mean, 1 / sqrt(var + eps); with QUANTIZED, as integers: normed-integers.glsl.
// Grid: x = ceil(rows / (256 / LANES)), continued along y.
// Reduction order: by held-rows.glsl, fixed by the columns: quads, sums, groups of sums. Mean first, then variance; of parts, those
// of a lane in turn, then lanes.
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

// The mean of `n` columns from group `first`, which are kept, and the sum of their squared deviations.
vec2 moments_of(uint start, uint first, uint count, uint columns, float n) {
    DECLARE_SUMS(sum)
    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 quad = within(load_row(start, first + i, columns), first + i, columns, 0.0);
        if (PART_HELD) {
            held[i] = quad;
        }
        ADD_TERMS(sum, i, quad);
    }
    float mean = QUOTIENT(total(sum), n);

    DECLARE_SUMS(squares)
    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 quad = PART_HELD ? held[i] : load_row(start, first + i, columns);
        vec4 centred = within(quad - mean, first + i, columns, 0.0);
        ADD_SQUARES(squares, i, centred);
    }
    return vec2(mean, total(squares));
}

#ifndef EVERYWHERE
// Elements, mean and squared deviations of two parts together (Chan, Golub, LeVeque 1979).
vec3 joined(vec3 a, vec3 b) {
    float n = a.x + b.x;
    float apart = b.y - a.y;
    return vec3(n, a.y + apart * (b.x / n), a.z + b.z + apart * apart * (a.x * (b.x / n)));
}

// Mean and squared deviations of a row, of whose parts each lane has some.
vec2 over_lanes(vec3 own, float n) {
    float mean = total(own.x * own.y) / n;
    float apart = own.y - mean;
    return vec2(mean, total(own.z + own.x * (apart * apart)));
}
#endif

void main() {
    OWN_ROW

    uint parts = parts_of(push.columns);
    uint each = part_quads(push.columns);
    vec2 moments = vec2(0.0);
    vec3 own = vec3(0.0);
    for (uint part = 0u; part < parts; part++) {
        float n = float(part_columns(part, push.columns));
        moments = moments_of(start, first_of(part, each), each, columns, n);
#ifndef EVERYWHERE
        if (IN_PARTS && lane() == part % LANES) {
            own = joined(own, vec3(n, moments.x, moments.y));
        }
#endif
    }
#ifndef EVERYWHERE
    if (IN_PARTS) {
        moments = over_lanes(own, float(push.columns));
    }
#endif
    float mean = moments.x;
    float deviation = sqrt(QUOTIENT(moments.y, float(push.columns)) + SETTLED(push.eps));
    float scale = QUOTIENT(1.0, deviation);

#ifdef MOMENTS
    if (lane() == 0u && columns > 0u) {
        y[row] = vec2(mean, scale);
    }
#elif defined(QUANTIZED)
    end_row(row, columns, count, vec2(mean, scale));
#else
    // The last part is still held.
    for (uint turn = 1u; turn <= parts; turn++) {
        uint first = first_of(parts - turn, each);
        if (IN_PARTS && turn > 1u) {
            [[unroll]] for (uint i = 0u; i < each; i++) {
                held[i] = load_row(start, first + i, columns);
            }
        }
        [[unroll]] for (uint i = 0u; i < each; i++) {
            vec4 quad = PART_HELD ? held[i] : load_row(start, first + i, columns);
            vec4 normal = PRODUCT(quad - mean, scale);
            vec4 weights = load_weight(0u, first + i, columns);
            store_y(start, first + i, columns, SETTLED_FMA(normal, weights, load_bias(0u, first + i, columns)));
        }
    }
#endif
}
