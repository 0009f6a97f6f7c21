// The nonlinearities, by the numbers of `ActivationKind`. `kind` is a specialization constant: no branch remains.
#include "numbers.glsl"

float activate(uint kind, float x) {
    switch (kind) {
        case 1u: return 0.5 * x * (1.0 + error_function(x * 0.707106781));
        case 2u: return 0.5 * x * (1.0 + hyperbolic_tangent(0.797884561 * (x + 0.044715 * x * x * x)));
        case 3u: return nan_max(x, 0.0);
        case 4u: return x * logistic(x);
        case 5u: return hyperbolic_tangent(x);
        case 6u: return logistic(x);
        case 7u: return x * logistic(1.702 * x);
        default: return x;
    }
}
