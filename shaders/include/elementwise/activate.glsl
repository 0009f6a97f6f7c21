// The nonlinearities. `kind` is a specialization constant, so no branch remains.
#include "kinds.glsl"
#include "numbers.glsl"

// 0.5 x (1 + tanh u) = x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3). The exponential, as in `exponential`, is 0
// below the normal numbers and infinite above; its value for NaN does not matter, since x is NaN then.
float gelu_tanh(float x) {
    float t = clamp(x * fma(x * x, -0.0713548163, -1.59576912), -88.0, 89.0);
    float n = roundEven(t * 1.44269504);
    float r = fma(n, 2.12194440e-4, fma(n, -0.693359375, t));
    float q = fma(r, 1.381446737e-3, 8.368780401e-3);
    q = fma(r, q, 4.166839421e-2);
    q = fma(r, q, 1.666652011e-1);
    q = fma(r, q, 4.999999341e-1);
    return QUOTIENT(x, fma(1.0 + fma(r * r, q, r), power_of_two(integer(n)), 1.0));
}

// 0.5 x (1 + erf(x / sqrt 2)): the upper tail of the normal distribution beyond |x| is 2^P(|x|), which keeps decreasing
// and is used directly for negative x. P minimax, weighted by the square root of the tail; 2^r minimax, relative error
// 2e-8.
float gelu_erf(float x) {
    float t = abs(x);
#ifdef EVERYWHERE
    // Past 16 the tail is 0.
    t = min(t, 16.0);
#endif
    float p = fma(t, -3.092422e-8, 9.000113e-7);
    p = fma(t, p, -1.1261285e-5);
    p = fma(t, p, 7.726784e-5);
    p = fma(t, p, -2.7937116e-4);
    p = fma(t, p, -6.5681093e-6);
    p = fma(t, p, 6.9611883e-3);
    p = fma(t, p, -5.24542e-2);
    p = fma(t, p, -4.5921594e-1);
    p = fma(t, p, -1.1511048);
    p = max(fma(t, p, -1.0), -127.0);
    float n = roundEven(p);
    float r = p - n;
    float root = fma(r, 1.5353362e-4, 1.3398875e-3);
    root = fma(r, root, 9.618437e-3);
    root = fma(r, root, 5.5503324e-2);
    root = fma(r, root, 2.4022648e-1);
    root = fma(r, root, 6.931472e-1);
    float tail = PRODUCT(fma(r, root, 1.0), power_of_two(integer(n)));
    return PRODUCT(x, x < 0.0 ? tail : 1.0 - tail);
}

float activate(uint kind, float x) {
    switch (kind) {
        case ACTIVATION_GELU_ERF: return gelu_erf(x);
        case ACTIVATION_GELU_TANH: return gelu_tanh(x);
        case ACTIVATION_RELU: return nan_max(x, 0.0);
        case ACTIVATION_SILU: return PRODUCT(x, logistic(x));
        case ACTIVATION_TANH: return hyperbolic_tangent(x);
        case ACTIVATION_SIGMOID: return logistic(x);
        case ACTIVATION_QUICK_GELU: return PRODUCT(x, logistic(1.702 * x));
        default: return x;
    }
}
