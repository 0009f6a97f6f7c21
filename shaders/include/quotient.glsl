// a / b, correctly rounded: Vulkan allows `/` 2.5 units in the last place. a, b and the quotient are positive, normal
// numbers. One bit at a time from the highest, then rounded by the remainder.
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
    uint q = 0u;
    for (uint bit = 0u; bit < 24u; bit++) {
        q *= 2u;
        if (n >= d) {
            n -= d;
            q++;
        }
        n *= 2u;
    }
    q += uint(n > d || (n == d && q % 2u == 1u));
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
