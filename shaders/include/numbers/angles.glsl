// sin and cos of any finite number within about 2 units in the last place of 1; NaN for infinities and NaN.

// Bits of 2 / pi: two zeros, then the fraction.
const uint TWO_OVER_PI[7] =
    uint[](0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0x7f9458eau);

// An angle as quarter turns and a remainder, -pi/4 .. pi/4.
struct Angle {
    uint quarters;
    float rest;
};

// For |x| from 1 on: x 2/pi in fixed point with 62 binary places, computing only the places that matter (Payne and
// Hanek 1983); no accuracy is lost, however large x is.
Angle reduce_large(float x) {
    uint bits = floatBitsToUint(x);
    uint mantissa = (bits << 8) | 0x80000000u;
    uint exponent = ((bits >> 23) & 0xffu) - 126u;
    uint word = exponent >> 5;
    uint shift = exponent & 31u;
    uint w0 = word > 0u ? TWO_OVER_PI[word - 1u] : 0u;
    uint w1 = TWO_OVER_PI[word];
    uint w2 = TWO_OVER_PI[word + 1u];
    uint w3 = TWO_OVER_PI[min(word + 2u, 6u)];
    if (shift > 0u) {
        w0 = (w0 << shift) | (w1 >> (32u - shift));
        w1 = (w1 << shift) | (w2 >> (32u - shift));
        w2 = (w2 << shift) | (w3 >> (32u - shift));
    }
    uint low;
    uint high;
    uint carry;
    umulExtended(mantissa, w2, high, low);
    uint sum = high;
    umulExtended(mantissa, w1, high, low);
    uint places = uaddCarry(sum, low, carry);
    uint whole = high + carry + mantissa * w0;
    uint quarters = whole >> 30;
    whole &= 0x3fffffffu;
    // To the nearest quarter turn.
    bool above = (whole & 0x20000000u) != 0u;
    if (above) {
        quarters += 1u;
        places = ~places + 1u;
        whole = 0x3fffffffu - whole + (places == 0u ? 1u : 0u);
    }
    float rest = (float(whole) * 9.31322575e-10 + float(places) * 2.16840434e-19) * 1.57079633;
    bool negative = (bits >> 31) != 0u;
    return Angle(negative ? 0u - quarters : quarters, negative != above ? -rest : rest);
}

Angle reduce(float x) {
    if (abs(x) >= 800.0) {
        bool finite = (floatBitsToUint(x) & 0x7fffffffu) < 0x7f800000u;
        if (finite) {
            return reduce_large(x);
        }
        return Angle(0u, uintBitsToFloat(0x7fc00000u));
    }
    float n = roundEven(x * 0.636619772);
    // pi / 2 in three parts; the first two have so few bits that their products with n are exact.
    precise float high = x - n * 1.5703125;
    precise float middle = high - n * 4.837512969970703e-4;
    precise float rest = middle - n * 7.549789954891e-8;
    return Angle(uint(int(n)), rest);
}

// sin(quarters pi/2 + rest); cos adds one quarter. Polynomials of Cephes' sinf and cosf.
float sine(Angle angle) {
    float r = angle.rest;
    float s = r * r;
    float p = fma(s, -1.9515295891e-4, 8.3321608736e-3);
    p = fma(s, p, -1.6666654611e-1);
    float odd = fma(r * s, p, r);
    float q = fma(s, 2.443315711809948e-5, -1.388731625493765e-3);
    q = fma(s, q, 4.166664568298827e-2);
    float even = fma(s * s, q, fma(s, -0.5, 1.0));
    float y = (angle.quarters & 1u) != 0u ? even : odd;
    return (angle.quarters & 2u) != 0u ? -y : y;
}

float cosine(Angle angle) {
    return sine(Angle(angle.quarters + 1u, angle.rest));
}
