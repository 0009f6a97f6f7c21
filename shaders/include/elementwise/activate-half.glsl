// Activations of results that are stored in 16 bits. After activate.glsl; ACTIVATION is a constant of the shader.

// As `activate`; GELU with erf as max(x, 0) - |x| (1 - Phi(|x|)), where the logarithm of 1 - Phi is a polynomial (least
// squares refined to minimax on 0 to 6.5): within 1e-7, which is invisible in 16 bits. Past 16 it is 0.
float activate_half(float x) {
    if (ACTIVATION != ACTIVATION_GELU_ERF) {
        return activate(ACTIVATION, x);
    }
    float t = min(abs(x), 16.0);
    float p = fma(t, fma(t, fma(t, 3.3092827e-5, -7.692199e-4), 8.080717e-3), -5.3412106e-2);
    p = fma(t, fma(t, fma(t, p, -0.45877096), -1.1512017), -0.9999931);
    // As in float32, where the product of minus infinity and 0 is NaN. NVIDIA's driver makes of `x < 0.0 ? 0.0 : x` a maximum, in
    // which NaN has no effect.
    bool none = is_nan(x) || floatBitsToUint(x) == 0xff800000u;
    return none ? uintBitsToFloat(0x7fc00000u) : fma(-t, exp2(p), max(x, 0.0));
}
