// What the builds of linear-matrix read and write: with GATED two weights, with NORMED the moments of x's rows and the
// vectors of the normalisation, and otherwise a residual. WIDTH and OUT_WIDTH are constants of the shader.
#include "counts.glsl"
#include "activate.glsl"
#if !defined(GATED) && !defined(NORMED)
#define ADDS
#endif

layout(constant_id = 1) const uint ACTIVATION = 0;
#ifndef GATED
layout(constant_id = 0) const bool BIAS = false;
#endif
#ifdef ADDS
layout(constant_id = 2) const bool RESIDUAL = false;
#endif

// Eight elements a quad.
layout(std430, binding = 1) readonly buffer X { uvec4 x[]; };
#ifdef NORMED
layout(std430, binding = 2) readonly buffer Moments { vec2 moments[]; };
layout(std430, binding = 3) readonly buffer NormWeight { vec4 norm_weight[]; };
layout(std430, binding = 4) readonly buffer NormBias { vec4 norm_bias[]; };
layout(std430, binding = 5) readonly buffer Weight { uvec4 weight[]; };
layout(std430, binding = 6) readonly buffer Bias { float bias[]; };
layout(std430, binding = 7) writeonly buffer Y { uvec4 y[]; };
#else
layout(std430, binding = 2) readonly buffer Weight { uvec4 weight[]; };
#endif
#ifdef GATED
layout(std430, binding = 3) readonly buffer Up { uvec4 up[]; };
layout(std430, binding = 4) writeonly buffer Y { uvec4 y[]; };
#endif
#ifdef ADDS
layout(std430, binding = 3) readonly buffer Bias { float bias[]; };
layout(std430, binding = 4) readonly buffer Residual { uvec4 residual[]; };
layout(std430, binding = 5) writeonly buffer Y { uvec4 y[]; };
#endif

layout(push_constant) uniform Push {
    uint rows_of;
    uint rows;
    uint n;
    uint k;
} push;

// As `activate`; GELU with erf as max(x, 0) - |x| (1 - Phi(|x|)), where the logarithm of what Phi lacks is a polynomial
// (least squares made minimax on 0 to 6.5): within 1e-7, which float16 does not see. Past 16 nothing is left of it.
float activate_half(float x) {
    if (ACTIVATION != 1u) {
        return activate(ACTIVATION, x);
    }
    float t = min(abs(x), 16.0);
    float p = fma(t, fma(t, fma(t, 3.3092827e-5, -7.692199e-4), 8.080717e-3), -5.3412106e-2);
    p = fma(t, fma(t, fma(t, p, -0.45877096), -1.1512017), -0.9999931);
    // Written so that no number stays none.
    return fma(-t, exp2(p), x < 0.0 ? 0.0 : x);
}

#ifdef NORMED
uint half_pair(vec2 pair, vec2 moment, vec2 scale, vec2 shift) {
    return packHalf2x16(fma((pair - moment.x) * moment.y, scale, shift));
}

// Quad `column` of a row, normalised as layer-norm.glsl does.
uvec4 normed(uvec4 quad, vec2 moment, uint column) {
    vec4 scale[2] = {norm_weight[2u * column], norm_weight[2u * column + 1u]};
    vec4 shift[2] = {norm_bias[2u * column], norm_bias[2u * column + 1u]};
    return uvec4(
        half_pair(unpackHalf2x16(quad.x), moment, scale[0].xy, shift[0].xy),
        half_pair(unpackHalf2x16(quad.y), moment, scale[0].zw, shift[0].zw),
        half_pair(unpackHalf2x16(quad.z), moment, scale[1].xy, shift[1].xy),
        half_pair(unpackHalf2x16(quad.w), moment, scale[1].zw, shift[1].zw));
}
#endif

#ifdef GATED
// A subgroup's rows of the tile are first its gates', then those of what they gate.
bool is_up(uint row) {
    return row % WIDTH >= OUT_WIDTH;
}

uint column_of(uint row) {
    return row / WIDTH * OUT_WIDTH + row % OUT_WIDTH;
}

uvec4 load_weight(uint row, uint at) {
    if (is_up(row)) {
        return up[at];
    }
    return weight[at];
}
#else
uint column_of(uint row) {
    return row;
}

uvec4 load_weight(uint row, uint at) {
    return weight[at];
}
#endif
