// Float32 numbers as two float16 numbers each, high + 2^-11 low, after multiplication by a power of two per row, which brings
// the largest to the top of float16's range: what lies up to 2^28 below it keeps its digits.

const float LOW_UNIT = 1.0 / 2048.0;

// Of the row's numbers so far: the biased exponent that the factor brings to 2^14, and the bits of the largest.
struct Fit {
    uint exponent;
    uint largest;
};

// Exponents for which factor and inverse are normal numbers and no product of them overflows.
const uint LEAST_EXPONENT = 15u;
const uint MOST_EXPONENT = 207u;

float scale_of(Fit fit) {
    return uintBitsToFloat((268u - fit.exponent) << 23);
}

// For a row whose largest number has these bits.
Fit fit_of(uint largest) {
    return Fit(clamp(largest >> 23, LEAST_EXPONENT, MOST_EXPONENT), largest);
}

// The inverse of the factor.
float inverse_of(Fit fit) {
    return uintBitsToFloat((fit.exponent - 14u) << 23);
}

// Whether sums of the row must be plain.
bool is_plain(Fit fit) {
    return fit.largest >= (MOST_EXPONENT + 1u) << 23 || (fit.largest > 0u && fit.largest < LEAST_EXPONENT << 23);
}

// The inverse of the factor, or NaN.
float unscale(Fit fit) {
    return is_plain(fit) ? uintBitsToFloat(0x7fc00000u) : inverse_of(fit);
}

// The bits of the largest of eight numbers.
uint largest_of(vec4 numbers[2]) {
    uvec4 bits = max(floatBitsToUint(abs(numbers[0])), floatBitsToUint(abs(numbers[1])));
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}

// Whether a number with these bits exceeds float16's range, up to 65504 after the row's factor.
bool exceeds(Fit fit, uint top) {
    return top > ((fit.exponent + 1u) << 23 | 0x7fe000u);
}

// Makes the row's factor smaller if its largest number, with these bits, would exceed the range; returns by how much.
float refit(inout Fit fit, uint top) {
    if (!exceeds(fit, top)) {
        return 1.0;
    }
    uint before = fit.exponent;
    fit.exponent = clamp(top >> 23, LEAST_EXPONENT, MOST_EXPONENT);
    return uintBitsToFloat(uint(max(0, 127 + int(before) - int(fit.exponent))) << 23);
}

// Eleven significant bits, rounded as integers: drivers take a conversion to float16 and back for nothing.
float nearest(float x) {
    return uintBitsToFloat((floatBitsToUint(x) + 0x1000u) & 0xffffe000u);
}

void split(vec4 numbers[2], float scale, out uvec4 high, out uvec4 low) {
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        vec2 pair = scale * (i % 2u == 0u ? numbers[i / 2u].xy : numbers[i / 2u].zw);
        vec2 rounded = vec2(nearest(pair.x), nearest(pair.y));
        high[i] = packFloat2x16(f16vec2(rounded));
        low[i] = packFloat2x16(f16vec2((pair - rounded) * 2048.0));
    }
}
