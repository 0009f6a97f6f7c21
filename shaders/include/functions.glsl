// Every nonlinearity of `ActivationKind` with its parameters, and its derivative. `kind` is a specialization constant.
#include "activate.glsl"
#include "angles.glsl"

float value(uint kind, float x, float a, float b) {
    switch (kind) {
        case 8u: return nan_max(x, 0.0) + logarithm_above_one(exponential(-abs(x)));
        case 9u: return x * cosine(reduce(x));
        case 10u: return x < 0.0 ? a * x : x;
        case 11u: return (x + a) * logistic(b * x) - 0.5 * a;
        case 12u: return square_root(x);
        case 13u: return exponential(x);
        case 14u: return logarithm(x);
        default: return activate(kind, x);
    }
}

vec4 value_4(uint kind, vec4 x, float a, float b) {
    return vec4(value(kind, x.x, a, b), value(kind, x.y, a, b), value(kind, x.z, a, b), value(kind, x.w, a, b));
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
        case 1u: return 0.5 * (1.0 + error_function(x * 0.707106781)) + x * exponential(-0.5 * x * x) * 0.398942280;
        case 2u: return is_nan(x) ? x : gelu_tanh_slope(x);
        case 3u: return is_nan(x) ? x : (x > 0.0 ? 1.0 : 0.0);
        case 4u: return swish_slope(x, 0.0, 1.0);
        case 5u: return 4.0 * logistic(2.0 * x) * logistic(-2.0 * x);
        case 6u: return logistic(x) * logistic(-x);
        case 7u: return swish_slope(x, 0.0, 1.702);
        case 8u: return logistic(x);
        case 9u: {
            Angle angle = reduce(x);
            return cosine(angle) - x * sine(angle);
        }
        case 10u: return is_nan(x) ? x : (x > 0.0 ? 1.0 : a);
        case 11u: return swish_slope(x, a, b);
        case 12u: return 0.5 / square_root(x);
        case 13u: return exponential(x);
        case 14u: return 1.0 / x;
        default: return 1.0;
    }
}

vec4 slope_4(uint kind, vec4 x, float a, float b) {
    return vec4(slope(kind, x.x, a, b), slope(kind, x.y, a, b), slope(kind, x.z, a, b), slope(kind, x.w, a, b));
}
