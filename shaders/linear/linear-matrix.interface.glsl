// The interface of the builds of linear-matrix: with GATED two weights, with FOLDED the row and column terms of the
// norm, otherwise a bias and, but for EXPERTS, a residual. WIDTH and OUT_WIDTH are constants of the shader.
#include "counts.glsl"
#include "elementwise/activate.glsl"
#if !defined(GATED) && !defined(FOLDED)
#define BIASED
#endif
#if defined(BIASED) && !defined(EXPERTS)
#define ADDS
#endif

layout(constant_id = 1) const uint ACTIVATION = 0;

// Eight elements per quad.
layout(std430, binding = 1) readonly buffer X { uvec4 x[]; };
#ifdef FOLDED
layout(std430, binding = 2) readonly buffer Moments { vec2 moments[]; };
layout(std430, binding = 3) readonly buffer Columns { vec2 columns[]; };
layout(std430, binding = 3) readonly buffer Gains { uvec4 column_gains[]; };
layout(std430, binding = 4) readonly buffer Weight { uvec4 weight[]; };
#define LAST 5
#else
layout(std430, binding = 2) readonly buffer Weight { uvec4 weight[]; };
#endif
#ifdef GATED
layout(std430, binding = 3) readonly buffer Up { uvec4 up[]; };
#define LAST 4
#endif
#ifdef BIASED
layout(constant_id = 0) const bool BIAS = false;
layout(std430, binding = 3) readonly buffer Bias { float bias[]; };
#endif
#ifdef ADDS
layout(constant_id = 2) const bool RESIDUAL = false;
layout(std430, binding = 4) readonly buffer Residual { uvec4 residual[]; };
layout(std430, binding = 4) readonly buffer ResidualQuads { uvec2 residual_4[]; };
#define LAST 5
#endif
#ifdef EXPERTS
#define ORDER 4
#define LAST 6
#endif
// The same, and four elements per quad.
layout(std430, binding = LAST) writeonly buffer Y { uvec4 y[]; };
layout(std430, binding = LAST) writeonly buffer YQuads { uvec2 y_4[]; };
#ifdef ADDS
// Whether the result is float32; then there is no residual.
layout(constant_id = 7) const bool WIDE = false;
layout(std430, binding = LAST) writeonly buffer YWide { vec4 y_wide[]; };
#define STORE_FOUR(AT, FOUR)                                                                                           \
    if (WIDE) {                                                                                                        \
        y_wide[AT] = FOUR;                                                                                             \
    } else {                                                                                                           \
        y_4[AT] = narrow(FOUR);                                                                                        \
    }
#else
#define WIDE false
#endif
#include "product/expert-rows.glsl"
#include "product/product-push.glsl"
#include "elementwise/activate-half.glsl"

#ifdef FOLDED
// Eight elements of the weight times the norm's, rounded as layer-norm-columns.glsl does.
uvec4 scaled(uvec4 quad, uvec4 gain) {
#if STORED == BFLOAT16
    return uvec4(narrow(wide(quad.xy) * wide(gain.xy)), narrow(wide(quad.zw) * wide(gain.zw)));
#else
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        quad[i] = packFloat2x16(unpackFloat2x16(quad[i]) * unpackFloat2x16(gain[i]));
    }
    return quad;
#endif
}
#endif

#ifdef GATED
// A subgroup's rows of the tile are first the gates', then those of the gated values.
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
