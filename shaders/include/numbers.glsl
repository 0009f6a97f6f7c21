// exp, log, erf and tanh within about 2 units in the last place. The built-in functions may be much less accurate, and
// differ between drivers. NaN is preserved; NaN tests inspect bits, which no optimiser removes.
#include "arithmetic.glsl"

bool is_nan(float x) {
    return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u;
}

bool is_finite(float x) {
    return (floatBitsToUint(x) & 0x7fffffffu) < 0x7f800000u;
}

// y, which is not negative, with the sign of x, including that of -0.
float with_sign(float y, float x) {
    return uintBitsToFloat(floatBitsToUint(y) | (floatBitsToUint(x) & 0x80000000u));
}

// The larger of two, NaN if either is NaN.
float nan_max(float a, float b) {
    return is_nan(a) ? a : (is_nan(b) ? b : max(a, b));
}

// int(n) of an integer, |n| < 2^22, from the lowest bits of a sum: on GPUs conversions have a fraction of the
// throughput of additions.
int integer(float n) {
    return floatBitsToInt(n + 12582912.0) - 0x4b400000;
}

// 2^n for n = -127, where it is 0, up to 128, where it is infinite.
float power_of_two(int n) {
    return uintBitsToFloat(uint(n + 127) << 23);
}

// Declares y = e^r and n: e^x = 2^n e^r, n = round(x / ln 2), |r| <= ln 2 / 2; e^r = 1 + r + r^2 q(r), q minimax, relative error
// 3e-9. ln 2 in two parts: the first has 9 bits, so that its product with n is exact.
#define EXPONENTIAL_PARTS(X)                                                                                           \
    float n = roundEven(X * 1.44269504);                                                                               \
    precise float high = X - n * 0.693359375;                                                                          \
    precise float r = high + n * 2.12194440e-4;                                                                        \
    float q = fma(r, 1.381446737e-3, 8.368780401e-3);                                                                  \
    q = fma(r, q, 4.166839421e-2);                                                                                     \
    q = fma(r, q, 1.666652011e-1);                                                                                     \
    q = fma(r, q, 4.999999341e-1);                                                                                     \
    float y = 1.0 + fma(r * r, q, r);

float exponential(float x) {
    // Below -104 the result rounds to 0, above 89 to infinity.
    float within = clamp(x, -104.0, 89.0);
    EXPONENTIAL_PARTS(within)
    // 2^n in two factors, neither of which overflows.
    int whole = integer(n);
    int part = whole >> 1;
    y = y * power_of_two(part) * power_of_two(whole - part);
    return is_nan(x) ? x : SETTLED(y);
}

vec4 exponentials(vec4 v) {
    return vec4(exponential(v.x), exponential(v.y), exponential(v.z), exponential(v.w));
}

// The same of x <= 0, with the same bits in fewer operations.
float exponential_of_negative(float x) {
#ifdef EVERYWHERE
    return exponential(x);
#else
    float within = max(x, -104.0);
    float n = roundEven(within * 1.44269504);
    // The product of n, of 8 bits, and 9 bits is exact, fused or not.
    precise float high = fma(n, -0.693359375, within);
    precise float r = high + n * 2.12194440e-4;
    float q = fma(r, 1.381446737e-3, 8.368780401e-3);
    q = fma(r, q, 4.166839421e-2);
    q = fma(r, q, 1.666652011e-1);
    q = fma(r, q, 4.999999341e-1);
    float y = 1.0 + fma(r * r, q, r);
    // 2^(n + 64), whose exponent is added to y's, and 2^-64, by which alone a subnormal result is rounded.
    uint scaled = floatBitsToUint(y) + (floatBitsToUint(n + 12582976.0) << 23);
    return is_nan(x) ? x : uintBitsToFloat(scaled) * 5.421010862427522e-20;
#endif
}

vec4 exponentials_of_negatives(vec4 v) {
    return vec4(exponential_of_negative(v.x), exponential_of_negative(v.y), exponential_of_negative(v.z),
                exponential_of_negative(v.w));
}

// Up to 0.92: x + x P(x^2); above: 1 - exp(t Q(t)), t = |x|. P, Q minimax, relative errors 2e-8 and 8e-10.
float error_function(float x) {
    // Above 4 the result rounds to 1.
    float t = min(abs(x), 4.0);
    float s = t * t;
    float p = fma(s, -5.955112335e-4, 4.986210243e-3);
    p = fma(s, p, -2.676190378e-2);
    p = fma(s, p, 1.12816876e-1);
    p = fma(s, p, -3.761248158e-1);
    p = fma(s, p, 1.283791478e-1);
    float q = fma(t, -1.123129675e-5, 3.228037243e-4);
    q = fma(t, q, -3.642458369e-3);
    q = fma(t, q, 2.376206135e-2);
    q = fma(t, q, -1.062368757e-1);
    q = fma(t, q, -6.351513176e-1);
    q = fma(t, q, -1.12864849);
    float y = t <= 0.92 ? fma(t, p, t) : 1.0 - exponential(t * q);
    return is_nan(x) ? x : with_sign(y, x);
}

// Up to 0.625: x + x^3 P(x^2); above: 1 - 2 / (e^2t + 1), t = |x|. P minimax, relative error 5e-9.
float hyperbolic_tangent(float x) {
    // Above 10 the result rounds to 1.
    float t = min(abs(x), 10.0);
    float s = t * t;
    float p = fma(s, -5.704986925e-3, 2.063908739e-2);
    p = fma(s, p, -5.373971522e-2);
    p = fma(s, p, 1.33314422e-1);
    p = fma(s, p, -3.333328194e-1);
    float y = t <= 0.625 ? fma(t, s * p, t) : 1.0 - QUOTIENT(2.0, exponential(2.0 * t) + 1.0);
    return is_nan(x) ? x : with_sign(y, x);
}

// 1 / (1 + e^-x), with the exponential of the negative side, which cannot overflow.
float logistic(float x) {
    float e = exponential(-abs(x));
    return QUOTIENT(x < 0.0 ? e : 1.0, 1.0 + e);
}

// log(1 + f) + n ln 2, 1 + f in sqrt(1/2) .. sqrt(2): f - f^2/2 + f^3 P(f), P minimax (Cephes' logf).
float logarithm_near(float f, float n) {
    float s = f * f;
    float p = fma(f, 7.0376836292e-2, -1.1514610310e-1);
    p = fma(f, p, 1.1676998740e-1);
    p = fma(f, p, -1.2420140846e-1);
    p = fma(f, p, 1.4249322787e-1);
    p = fma(f, p, -1.6668057665e-1);
    p = fma(f, p, 2.0000714765e-1);
    p = fma(f, p, -2.4999993993e-1);
    p = fma(f, p, 3.3333331174e-1);
    // ln 2 in two parts: the first has 9 bits, so its product with n is exact.
    float low = fma(f * s, p, n * -2.12194440e-4);
    return (f + (low - 0.5 * s)) + n * 0.693359375;
}

// log x, denormal x included; -infinity at 0, NaN below.
float logarithm(float x) {
    uint bits = floatBitsToUint(x);
    // Denormal numbers are measured in units of 2^-149.
    bool small = bits < 0x00800000u;
    uint scaled = small ? floatBitsToUint(float(bits)) : bits;
    // The exponent of the power of two that leaves a quotient in sqrt(1/2) .. sqrt(2).
    int n = int(scaled - 0x3f3504f3u) >> 23;
    float f = uintBitsToFloat(scaled - uint(n << 23)) - 1.0;
    float y = logarithm_near(f, float(small ? n - 149 : n));
    if ((bits & 0x7fffffffu) == 0u) {
        return uintBitsToFloat(0xff800000u);
    }
    // Infinity and NaN are returned unchanged; numbers below zero have their sign bit set.
    return bits >= 0x7f800000u ? (bits > 0x80000000u && !is_nan(x) ? uintBitsToFloat(0x7fc00000u) : x) : y;
}

// log(1 + x), x in 0 .. 1.
float logarithm_above_one(float x) {
    bool half_way = x > 0.414213562;
    return logarithm_near(half_way ? 0.5 * x - 0.5 : x, half_way ? 1.0 : 0.0);
}

// sqrt x, denormal x included; NaN below zero, where the built-in one is undefined.
float square_root(float x) {
#ifdef EVERYWHERE
    return sqrt(x);
#else
    uint bits = floatBitsToUint(x);
    if (bits >= 0x7f800000u) {
        return bits > 0x80000000u && !is_nan(x) ? uintBitsToFloat(0x7fc00000u) : x;
    }
    // Denormal numbers are measured in units of 2^-149.
    return bits < 0x00800000u ? sqrt(2.0 * float(bits)) * 2.64697796e-23 : sqrt(x);
#endif
}
