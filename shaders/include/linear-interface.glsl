// What the builds of `linear` share: their interface but for constants, loads and the epilogue. With GATED the weight's
// place is taken by two, gate and up, of which each tile of 128 columns has 64 rows each, and y = act(x gate^T) (x up^T).
// With NORMED, x is normalised while it is loaded, by its rows' moments: mean, and 1 / sqrt(var + eps).
#include "counts.glsl"
#include "activate.glsl"
#include "stored.glsl"

// Whether rows of x and the weight start at multiples of four elements.
ALIGNED_ROWS(VECTOR, 0);
layout(constant_id = 2) const uint ACTIVATION = 0;
#ifndef GATED
layout(constant_id = 1) const bool BIAS = false;
#endif
#if !defined(GATED) && !defined(NORMED)
layout(constant_id = 3) const bool RESIDUAL = false;
#endif
// Whether those of the result do.
ALIGNED_ROWS(VECTOR_Y, 7);

layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer X4 { QUAD x_4[]; };
#ifdef NORMED
layout(std430, binding = 2) readonly buffer Moments { vec2 moments[]; };
layout(std430, binding = 3) readonly buffer NormWeight { float norm_weight[]; };
layout(std430, binding = 3) readonly buffer NormWeight4 { vec4 norm_weight_4[]; };
layout(std430, binding = 4) readonly buffer NormBias { float norm_bias[]; };
layout(std430, binding = 4) readonly buffer NormBias4 { vec4 norm_bias_4[]; };
#define NEXT 5
#else
#define NEXT 2
#endif
layout(std430, binding = NEXT) readonly buffer Weight { float weight[]; };
layout(std430, binding = NEXT) readonly buffer Weight4 { QUAD weight_4[]; };
#ifdef GATED
layout(std430, binding = 3) readonly buffer Up { float up[]; };
layout(std430, binding = 3) readonly buffer Up4 { QUAD up_4[]; };
layout(std430, binding = 4) writeonly buffer Y { float y[]; };
layout(std430, binding = 4) writeonly buffer Y4 { QUAD y_4[]; };
#else
layout(std430, binding = NEXT + 1) readonly buffer Bias { float bias[]; };
layout(std430, binding = NEXT + 1) readonly buffer Bias4 { vec4 bias_4[]; };
#ifdef NORMED
layout(std430, binding = NEXT + 2) writeonly buffer Y { float y[]; };
layout(std430, binding = NEXT + 2) writeonly buffer Y4 { QUAD y_4[]; };
#else
layout(std430, binding = 4) readonly buffer Residual { float residual[]; };
layout(std430, binding = 4) readonly buffer Residual4 { QUAD residual_4[]; };
layout(std430, binding = 5) writeonly buffer Y { float y[]; };
layout(std430, binding = 5) writeonly buffer Y4 { QUAD y_4[]; };
#endif
#endif

layout(push_constant) uniform Push {
    uint rows_of;
    uint rows;
    // Rows of the weight that are bound, which give columns column .. column + n of the result.
    uint n;
    uint k;
    uint column;
    uint y_columns;
#ifdef GATED
    // Rows of gate and up that are bound; n counts both, with those that fill the last tile.
    uint width;
#endif
} push;

#ifdef GATED
#define WEIGHT_ROWS push.width
#else
#define WEIGHT_ROWS push.n
#endif

#ifdef NORMED
// As layer-norm.glsl, with its bits.
vec4 normed(vec4 quad, uint row, vec4 scale, vec4 shift) {
    vec2 moment = moments[row];
    return fma((quad - moment.x) * moment.y, scale, shift);
}
#endif

// x[row, k .. k + 3], zeros past the end of the row and past the last of `rows`.
vec4 load_x(uint row, uint k, uint rows) {
    bool there = row < rows && k < push.k;
    uint at = there ? row * push.k + k : 0u;
    vec4 quad;
    if (VECTOR) {
        quad = wide(x_4[at / 4u]);
#ifdef NORMED
        uint column = there ? k / 4u : 0u;
        quad = normed(quad, there ? row : 0u, norm_weight_4[column], norm_bias_4[column]);
#endif
    } else {
        // Past the end of the row, its last element stands in.
        uint most = there ? push.k - 1u - k : 0u;
        uvec4 near = min(uvec4(0u, 1u, 2u, 3u), uvec4(most));
        quad = vec4(x[at], x[at + near.y], x[at + near.z], x[at + near.w]);
#ifdef NORMED
        uvec4 c = (there ? k : 0u) + near;
        vec4 scale = vec4(norm_weight[c.x], norm_weight[c.y], norm_weight[c.z], norm_weight[c.w]);
        vec4 shift = vec4(norm_bias[c.x], norm_bias[c.y], norm_bias[c.z], norm_bias[c.w]);
        quad = normed(quad, there ? row : 0u, scale, shift);
#endif
        quad = mix(quad, vec4(0.0), greaterThan(uvec4(0u, 1u, 2u, 3u), uvec4(most)));
    }
    quad = mix(quad, vec4(0.0), bvec4(!there));
    return quad;
}

// Declares `vec4 NAME(row, k)`: a weight's [row, k .. k + 3], zeros past the end of the row and past the last row.
#define LOAD_WEIGHT(NAME, SCALARS, VECTORS)                                                                            \
    vec4 NAME(uint row, uint k) {                                                                                      \
        bool there = row < WEIGHT_ROWS && k < push.k;                                                                  \
        uint at = there ? row * push.k + k : 0u;                                                                       \
        vec4 quad;                                                                                                     \
        if (VECTOR) {                                                                                                  \
            quad = wide(VECTORS[at / 4u]);                                                                             \
        } else {                                                                                                       \
            /* Past the end of the row, its last element stands in. */                                                 \
            uint most = there ? push.k - 1u - k : 0u;                                                                  \
            quad = vec4(SCALARS[at], SCALARS[at + min(1u, most)], SCALARS[at + min(2u, most)],                         \
                        SCALARS[at + min(3u, most)]);                                                                  \
            quad = mix(quad, vec4(0.0), greaterThan(uvec4(0u, 1u, 2u, 3u), uvec4(most)));                              \
        }                                                                                                              \
        return mix(quad, vec4(0.0), bvec4(!there));                                                                    \
    }

#ifdef GATED
LOAD_WEIGHT(load_gate, weight, weight_4)
LOAD_WEIGHT(load_up, up, up_4)

vec4 load_weight(uint row, uint k) {
    uint own = row / 128u * 64u + row % 64u;
    return row % 128u < 64u ? load_gate(own, k) : load_up(own, k);
}
#else
LOAD_WEIGHT(load_weight, weight, weight_4)
#endif

// Four steps of a sum, in order of k.
float accumulate(vec4 a, vec4 b, float sum) {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

#ifdef GATED
// The row's gates, whose columns are finished right before those of up.
vec4 gate;

void finish(uint row, uint n, vec4 sum) {
    if (n % 128u < 64u) {
        gate = sum;
        return;
    }
    uint own = n / 128u * 64u + n % 64u;
    uint at = row * push.y_columns + push.column + own;
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        sum[i] *= activate(ACTIVATION, gate[i]);
    }
    if (VECTOR_Y) {
        if (own < push.width) {
            y_4[at / 4u] = narrow(sum);
        }
        return;
    }
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        if (own + i < push.width) {
            y[at + i] = sum[i];
        }
    }
}
#else
// Writes y[row, push.column + n] from the finished sum over k.
void finish_one(uint row, uint n, float sum) {
    uint column = push.column + n;
    if (BIAS) {
        sum += bias[column];
    }
    float value = activate(ACTIVATION, sum);
    uint at = row * push.y_columns + column;
#ifndef NORMED
    if (RESIDUAL) {
        value += residual[at];
    }
#endif
    y[at] = value;
}

// Writes columns n .. n + 3, of which n is one of the result's.
void finish(uint row, uint n, vec4 sum) {
    if (VECTOR_Y) {
        uint column = push.column + n;
        if (BIAS) {
            sum += bias_4[column / 4u];
        }
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            sum[i] = activate(ACTIVATION, sum[i]);
        }
        uint at = (row * push.y_columns + column) / 4u;
#ifndef NORMED
        if (RESIDUAL) {
            sum += wide(residual_4[at]);
        }
#endif
        y_4[at] = narrow(sum);
        return;
    }
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        if (n + i < push.n) {
            finish_one(row, n + i, sum[i]);
        }
    }
}
#endif
