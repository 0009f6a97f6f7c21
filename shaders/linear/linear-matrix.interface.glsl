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

UNITS(1, readonly, x)
UNIT_OF(x, X_UNIT)
EIGHTS_OF(x, X_UNIT, WHOLE)
#ifdef FOLDED
layout(std430, binding = 2) readonly buffer Moments { vec2 moments[]; };
layout(std430, binding = 3) readonly buffer Columns { vec2 columns[]; };
layout(std430, binding = 3) readonly buffer Gains { uvec4 column_gains[]; };
#define WEIGHT 4
#define LAST 5
#else
#define WEIGHT 2
#endif
UNITS(WEIGHT, readonly, weight)
UNIT_OF(weight, X_UNIT)
EIGHTS_OF(weight, X_UNIT, WHOLE)
#ifdef GATED
UNITS(3, readonly, up)
UNIT_OF(up, X_UNIT)
EIGHTS_OF(up, X_UNIT, WHOLE)
#define LAST 4
#endif
#ifdef BIASED
layout(constant_id = 0) const bool BIAS = false;
layout(std430, binding = 3) readonly buffer Bias { float bias[]; };
#endif
#ifdef ADDS
layout(constant_id = 2) const bool RESIDUAL = false;
UNITS(4, readonly, residual)
QUADS_OF(residual, RESULT_UNIT)
EIGHTS_OF(residual, RESULT_UNIT, RESULT_UNIT == 8u)
#define LAST 5
#endif
#ifdef EXPERTS
#define ORDER 4
#define LAST 6
#endif
UNITS(LAST, writeonly, y)
PUTS(y, RESULT_UNIT)
#ifdef ADDS
layout(std430, binding = LAST) writeonly buffer WideFours { vec4 wide_4[]; };
layout(std430, binding = LAST) writeonly buffer WideOnes { float wide_1[]; };

// As put_quad, in float32 if WIDE.
void put_result(uint at, vec4 quad, uint first) {
    if (!WIDE) {
        put_quad(at, quad, first);
    } else if (RESULT_UNIT == 4u) {
        wide_4[at] = quad;
    } else {
        [[unroll]] for (uint i = 0u; i < RESULT_UNIT; i++) {
            wide_1[at * RESULT_UNIT + i] = quad[first + i];
        }
    }
}
#define PUT_QUAD put_result
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

uvec4 load_weight(uint row, uint at, uint term) {
    if (is_up(row)) {
        return eight_of_up(at, term, push.k);
    }
    return eight_of_weight(at, term, push.k);
}
#else
uint column_of(uint row) {
    return row;
}

uvec4 load_weight(uint row, uint at, uint term) {
    return eight_of_weight(at, term, push.k);
}
#endif
