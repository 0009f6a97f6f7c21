// The interface of the kernels of quantized_linear, but for q and the weight, and the end of a product: q [rows, k],
// weight [n, k] of LEVELS, scale [rows], with PAIRS [rows, 2] with the zeros, y and residual [rows, n]. After
// levels.glsl.
#include "elementwise/activate.glsl"
#include "numbers/quotient.glsl"
#include "stored.glsl"

layout(constant_id = 5) const uint LEVELS = INT8;
layout(constant_id = 6) const uint ACTIVATION = 0;
layout(constant_id = 7) const bool BIAS = false;
layout(constant_id = 8) const bool RESIDUAL = false;
layout(constant_id = 9) const bool PAIRS = false;
// Whether all columns share a scale.
layout(constant_id = 10) const bool SHARED = false;
#if STORED == FLOAT32
#define ACTIVATED(X) activate(ACTIVATION, X)
#else
#include "elementwise/activate-half.glsl"
#define ACTIVATED(X) activate_half(X)
#endif

layout(std430, binding = 2) readonly buffer Scale { float scale[]; };
layout(std430, binding = 4) readonly buffer WeightScale { float weight_scale[]; };
layout(std430, binding = 5) readonly buffer Bias { float bias[]; };

// What a row's sums are multiplied by, and what is taken from its integers.
float row_factor_of(uint row) {
    return reciprocal(scale[PAIRS ? 2u * row : row]);
}

int zero_of(uint row) {
    return PAIRS ? int(scale[2u * row + 1u]) : 0;
}

// What a column's sums are multiplied by, and what is added.
float column_factor_of(uint column) {
    return reciprocal(weight_scale[SHARED ? 0u : column]);
}

float bias_of(uint column) {
    return BIAS ? SETTLED(bias[column]) : 0.0;
}

// A result but for the residual, of a sum that is multiplied by its column's factor.
float finished(float sum, float row_factor, float added) {
#ifdef EVERYWHERE
    float found = SETTLED_FMA(sum, row_factor, added);
    if (ACTIVATION != ACTIVATION_IDENTITY) {
        found = activate(ACTIVATION, settled(found));
    }
    return RESIDUAL ? settled(found) : found;
#else
    return ACTIVATED(fma(sum, row_factor, added));
#endif
}
