// Every nonlinearity of `ActivationKind` with its parameters, and its derivative. `kind` is a specialization constant.
#include "elementwise/activate.glsl"
#include "numbers/angles.glsl"

float value(uint kind, float x, float a, float b) {
    switch (kind) {
        case ACTIVATION_SOFTPLUS: return nan_max(x, 0.0) + logarithm_above_one(exponential(-abs(x)));
        case ACTIVATION_GCU: return PRODUCT(x, cosine(reduce(x)));
        case ACTIVATION_LEAKY_RELU: return x < 0.0 ? PRODUCT(a, x) : x;
        case ACTIVATION_ROSWISH: return PRODUCT(x + a, logistic(PRODUCT(b, x))) - PRODUCT(0.5, a);
        case ACTIVATION_SQRT: return square_root(x);
        case ACTIVATION_EXP: return exponential(x);
        case ACTIVATION_LOG: return logarithm(x);
        default: return activate(kind, x);
    }
}

// A loop, so that modules contain the functions once and not per component.
vec4 value_4(uint kind, vec4 x, float a, float b) {
    for (uint i = 0u; i < 4u; i++) {
        x[i] = value(kind, x[i], a, b);
    }
    return x;
}

// Derivative of (x + a) sigmoid(b x); 1 - sigmoid(x) is sigmoid(-x).
float swish_slope(float x, float a, float b) {
    float s = logistic(b * x);
    return s + b * (x + a) * s * logistic(-b * x);
}

// sigmoid(2 u) = (1 + tanh u) / 2; from |x| = 20 on the second term is 0 and a square could overflow.
float gelu_tanh_slope(float x) {
    float t = isinf(x) ? x : clamp(x, -20.0, 20.0);
    float s = t * t;
    float twice = 1.59576912 * fma(0.044715 * s, t, t);
    float y = logistic(twice);
    return y + t * (y * logistic(-twice)) * (1.59576912 * fma(0.134145, s, 1.0));
}

// 0 at relu's corner, a at leaky relu's.
float slope(uint kind, float x, float a, float b) {
    switch (kind) {
        case ACTIVATION_GELU_ERF: return 0.5 * (1.0 + error_function(x * 0.707106781)) + x * exponential(-0.5 * x * x) * 0.398942280;
        case ACTIVATION_GELU_TANH: return is_nan(x) ? x : gelu_tanh_slope(x);
        case ACTIVATION_RELU: return is_nan(x) ? x : (x > 0.0 ? 1.0 : 0.0);
        case ACTIVATION_SILU: return swish_slope(x, 0.0, 1.0);
        case ACTIVATION_TANH: return 4.0 * logistic(2.0 * x) * logistic(-2.0 * x);
        case ACTIVATION_SIGMOID: return logistic(x) * logistic(-x);
        case ACTIVATION_QUICK_GELU: return swish_slope(x, 0.0, 1.702);
        case ACTIVATION_SOFTPLUS: return logistic(x);
        case ACTIVATION_GCU: {
            Angle angle = reduce(x);
            return cosine(angle) - x * sine(angle);
        }
        case ACTIVATION_LEAKY_RELU: return is_nan(x) ? x : (x > 0.0 ? 1.0 : a);
        case ACTIVATION_ROSWISH: return swish_slope(x, a, b);
        case ACTIVATION_SQRT: return 0.5 / square_root(x);
        case ACTIVATION_EXP: return exponential(x);
        case ACTIVATION_LOG: return 1.0 / x;
        default: return 1.0;
    }
}

vec4 slope_4(uint kind, vec4 x, float a, float b) {
    for (uint i = 0u; i < 4u; i++) {
        x[i] = slope(kind, x[i], a, b);
    }
    return x;
}
