#include "arithmetic.glsl"
#ifdef EVERYWHERE
float quotient(float a, float b) {
    return normal_quotient(a, b);
}

// 1 / x; numbers below 2^-126 are 0.
float reciprocal(float x) {
    return normal_quotient(1.0, normal(x));
}
#else
// a / b, correctly rounded: Vulkan allows `/` 2.5 units in the last place. a, b and the quotient are positive, normal
// numbers. A quotient in floats, which integers correct.
float quotient(float a, float b) {
    uint n = floatBitsToUint(a), d = floatBitsToUint(b);
    int exponent = int(n >> 23u) - int(d >> 23u) + 127;
    n = bitfieldInsert(n, 1u, 23, 9);
    d = bitfieldInsert(d, 1u, 23, 9);
    // The quotient of the mantissas in 1 .. 2.
    if (n < d) {
        n *= 2u;
        exponent--;
    }
    // n 2^23 / d to within some units, whose remainder, modulo 2^32, is exact; then its nearest integer, first by the
    // remainder's quotient, which may be off by one where it is next to a half. No quotient of 24 bits is midway.
    float inverse = 1.0 / float(d);
    uint q = uint(float(n) * inverse * 8388608.0);
    int rest = int((n << 23u) - q * d);
    int more = int(roundEven(float(rest) * inverse));
    q += uint(more);
    rest -= more * int(d);
    q += uint(int(2 * rest > int(d)) - int(2 * rest < -int(d)));
    // The highest bit of q counts to the exponent, and so does a carry.
    return uintBitsToFloat((uint(exponent - 1) << 23u) + q);
}

// 1 / x, correctly rounded where both are normal numbers.
float reciprocal(float x) {
    float size = abs(x);
    // Not for 0, infinity, NaN and what is next to them.
    if (floatBitsToUint(size) - 0x00800000u > 0x7e000000u) {
        return 1.0 / x;
    }
    float found = quotient(1.0, size);
    return x < 0.0 ? -found : found;
}
#endif
