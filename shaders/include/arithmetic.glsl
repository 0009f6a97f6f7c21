// Arithmetic of kernels that are also built with EVERYWHERE, whose results have the same bits on every device. Such a build
// has float32 numbers, adds, subtracts, multiplies and compares them alone, and never as one fused step. A number below 2^-100
// counts as 0 wherever an operation reads it, and so do products: no subnormal number matters, which some devices lack.
#ifndef SETTLED
#ifndef EVERYWHERE
// The same in builds whose numbers are those of a device.
#define SETTLED(X) X
#define CANONICAL(X) X
#define PRODUCT(A, B) (A) * (B)
#define SETTLED_FMA(A, B, C) fma(A, B, C)
#define QUOTIENT(A, B) (A) / (B)
#define NORMAL(X) X
#else
// +0 for numbers of magnitude below 2^-100; NaN stays.
float settled(float x) {
    return (floatBitsToUint(x) & 0x7fffffffu) < 0x0d800000u ? 0.0 : x;
}

vec4 settled(vec4 x) {
    return vec4(settled(x.x), settled(x.y), settled(x.z), settled(x.w));
}

// One NaN for all.
float canonical(float x) {
    return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u ? uintBitsToFloat(0x7fc00000u) : x;
}

vec4 canonical(vec4 x) {
    return vec4(canonical(x.x), canonical(x.y), canonical(x.z), canonical(x.w));
}

float settled_product(float a, float b) {
    return settled(a * b);
}

vec4 settled_product(vec4 a, vec4 b) {
    return settled(a * b);
}

vec4 settled_product(vec4 a, float b) {
    return settled(a * vec4(b));
}

// +0 for numbers of magnitude below 2^-126, which some devices lack; NaN stays. So scales are read, which may be below 2^-100.
float normal(float x) {
    return (floatBitsToUint(x) & 0x7fffffffu) < 0x00800000u ? 0.0 : x;
}

float larger(float a, float b) {
    return a > b ? a : b;
}

float smaller(float a, float b) {
    return a < b ? a : b;
}

vec2 larger(vec2 a, vec2 b) {
    return vec2(larger(a.x, b.x), larger(a.y, b.y));
}

vec4 larger(vec4 a, vec4 b) {
    return vec4(larger(a.x, b.x), larger(a.y, b.y), larger(a.z, b.z), larger(a.w, b.w));
}

float bounded(float x, float least, float most) {
    return x < least ? least : (x > most ? most : x);
}

vec4 bounded(vec4 x, float least, float most) {
    return vec4(bounded(x.x, least, most), bounded(x.y, least, most), bounded(x.z, least, most), bounded(x.w, least, most));
}

// Of integers as they are.
uint larger(uint a, uint b) {
    return max(a, b);
}

int larger(int a, int b) {
    return max(a, b);
}

uint smaller(uint a, uint b) {
    return min(a, b);
}

int smaller(int a, int b) {
    return min(a, b);
}

int bounded(int x, int least, int most) {
    return clamp(x, least, most);
}

// a * b + c in two steps.
float multiplied_and_added(float a, float b, float c) {
    float product = a * b;
    return product + c;
}

vec4 multiplied_and_added(vec4 a, vec4 b, vec4 c) {
    vec4 product = a * b;
    return product + c;
}

// a / b, correctly rounded, of normal numbers and 0; 0 where it is below 2^-126. A quotient in floats, from an inverse by Newton's
// method, which integers correct.
float normal_quotient(float a, float b) {
    uint n = floatBitsToUint(a) & 0x7fffffffu;
    uint d = floatBitsToUint(b) & 0x7fffffffu;
    uint sign = (floatBitsToUint(a) ^ (d == 0u ? 0u : floatBitsToUint(b))) & 0x80000000u;
    const uint INFINITE = 0x7f800000u;
    if (n > INFINITE || d > INFINITE || (n == d && (n == 0u || n == INFINITE))) {
        return uintBitsToFloat(0x7fc00000u);
    }
    if (n == INFINITE || d == 0u) {
        return uintBitsToFloat(INFINITE | sign);
    }
    if (n == 0u || d == INFINITE) {
        return 0.0;
    }
    int exponent = int(n >> 23) - int(d >> 23) + 127;
    n = (n & 0x007fffffu) | 0x00800000u;
    d = (d & 0x007fffffu) | 0x00800000u;
    // The quotient of the mantissas in 1 .. 2.
    if (n < d) {
        n *= 2u;
        exponent--;
    }
    // Within 2^-22 of 1 / d after three steps from 12 per cent.
    float divisor = float(d);
    float inverse = uintBitsToFloat(0x7ef311c7u - floatBitsToUint(divisor));
    for (uint i = 0u; i < 3u; i++) {
        inverse = inverse * (2.0 - divisor * inverse);
    }
    // n 2^23 / d within some units, whose remainder, modulo 2^32, is exact; then its nearest integer, first by the remainder's
    // quotient, which may be off by one where it is next to a half. No quotient of 24 bits is midway.
    uint q = uint(float(n) * inverse * 8388608.0);
    int rest = int((n << 23) - q * d);
    int more = int(roundEven(float(rest) * inverse));
    q += uint(more);
    rest -= more * int(d);
    q += uint(int(2 * rest > int(d)) - int(2 * rest < -int(d)));
    // The highest bit of q counts to the exponent, and so does a carry.
    uint bits = exponent < 1 ? 0u : (uint(exponent - 1) << 23) + q;
    if (bits < 0x00800000u) {
        return 0.0;
    }
    return uintBitsToFloat(sign | (bits < INFINITE ? bits : INFINITE));
}

// The same, settled.
float divided(float a, float b) {
    return settled(normal_quotient(a, b));
}

vec4 divided(vec4 a, vec4 b) {
    for (uint i = 0u; i < 4u; i++) {
        a[i] = divided(a[i], b[i]);
    }
    return a;
}

// The square root, correctly rounded, of a number that is settled; NaN below zero.
float rooted(float x) {
    uint bits = floatBitsToUint(x);
    if (bits - 1u >= 0x7f7fffffu) {
        return (bits & 0x7fffffffu) == 0u ? 0.0 : uintBitsToFloat(bits == 0x7f800000u ? bits : 0x7fc00000u);
    }
    int exponent = int(bits >> 23) - 127;
    uint odd = uint(exponent) & 1u;
    // x = m 2^-23 4^h.
    uint m = ((bits & 0x007fffffu) | 0x00800000u) << odd;
    int h = (exponent - int(odd)) >> 1;
    // Within 2^-21 of 1 / sqrt(m) after three steps of Newton's method from 3 per cent.
    float number = float(m);
    float inverse = uintBitsToFloat(0x5f3759dfu - (floatBitsToUint(number) >> 1));
    float half_number = 0.5 * number;
    for (uint i = 0u; i < 3u; i++) {
        inverse = inverse * (1.5 - (half_number * inverse) * inverse);
    }
    // sqrt(m 2^23) within some units, whose remainder, modulo 2^32, is exact; then its nearest integer.
    uint root = uint((number * inverse) * 2896.30938);
    int rest = int((m << 23) - root * root);
    root += uint(int(roundEven(float(rest) * (inverse * 1.72633492e-4))));
    rest = int((m << 23) - root * root);
    root += uint(int(rest > int(root)) - int(rest <= -int(root)));
    return uintBitsToFloat((uint(h + 126) << 23) + root);
}

#define SETTLED(X) settled(X)
#define CANONICAL(X) canonical(X)
#define PRODUCT(A, B) settled_product(A, B)
#define SETTLED_FMA(A, B, C) (settled_product(A, B) + (C))
#define QUOTIENT(A, B) divided(A, B)
#define NORMAL(X) normal(X)
#define fma(A, B, C) multiplied_and_added(A, B, C)
#define max(A, B) larger(A, B)
#define min(A, B) smaller(A, B)
#define clamp(X, LEAST, MOST) bounded(X, LEAST, MOST)
#define sqrt(X) rooted(X)
#endif
#endif
