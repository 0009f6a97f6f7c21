// Rows of numbers as integers of 24 bits with an exponent, and exact sums of their products in two words, as
// `src/quant/everywhere.rs` has them on the host.

// The exponents of a row with a NaN or an infinity, and of one without numbers but 0, where these are told.
const int NOT_FINITE = 0x7fffffff;
const int NOTHING = -0x7fffffff - 1;

// What decides a row's exponent: of its numbers x 2^balance the largest; NOTHING of 0 and subnormal numbers.
int measure(float x, int balance) {
    uint bits = floatBitsToUint(x) & 0x7fffffffu;
    return bits < 0x00800000u ? NOTHING : int(bits) + balance * 0x00800000;
}

// The exponent of a row from its largest measure and the largest bits of its magnitudes.
int row_exponent(int most, uint largest) {
    // Half of (most + 65793) / 2^22, which may not fit.
    int exponent = most == NOTHING ? 0 : (((most >> 1) + 32896 + (most & 1)) >> 22) - 127;
    return largest >= 0x7f800000u ? NOT_FINITE : exponent;
}

// x 2^shift to the nearest integer, ties to even, where it has 24 bits at most.
int scaled_integer(float x, int shift) {
    uint bits = floatBitsToUint(x);
    int field = int((bits >> 23) & 0xffu);
    int mantissa = int((bits & 0x007fffffu) | 0x00800000u);
    // From 25 places on less than half is left.
    int places = clamp(150 - field - shift, 0, 25);
    int half_place = ((1 << places) >> 1) - 1 + ((mantissa >> places) & 1);
    int q = places == 0 ? mantissa : (mantissa + half_place) >> places;
    q = field == 0 ? 0 : q;
    return (bits >> 31) != 0u ? -q : q;
}

// The bytes of four words, the first of each in the first word, and so on.
uvec4 transposed(uvec4 words) {
    const uint EVEN = 0x00ff00ffu, ODD = 0xff00ff00u;
    uvec2 even = (words.xz & EVEN) | ((words.yw & EVEN) << 8);
    uvec2 odd = ((words.xz & ODD) >> 8) | (words.yw & ODD);
    return uvec4((even.x & 0xffffu) | (even.y << 16), (odd.x & 0xffffu) | (odd.y << 16), (even.x >> 16) | (even.y & 0xffff0000u),
                 (odd.x >> 16) | (odd.y & 0xffff0000u));
}

// The three signed digits of four integers, a word for each digit.
uvec3 digits_of(ivec4 q) {
    // The sum has each digit plus 128 in a byte.
    return transposed(uvec4(q + 0x00808080)).xyz ^ 0x80808080u;
}

// Two halves of an integer of 24 bits, q = 4096 high + low, low in -2048 .. 2047, in a word.
int halves(int q) {
    int high = (q + 2048) >> 12;
    int low = q - high * 4096;
    return (high << 16) | (low & 0xffff);
}

// Adds a b to the sums of products of high halves, of both, and of low halves; 256 products fit.
void add_product(int a, int b, inout ivec3 sums) {
    int a_high = a >> 16, b_high = b >> 16;
    int a_low = (a << 16) >> 16, b_low = (b << 16) >> 16;
    sums.x += a_high * b_high;
    sums.y += a_high * b_low + a_low * b_high;
    sums.z += a_low * b_low;
}

// Adds two sums of 64 bits, the lower word first.
void add(inout uvec2 sum, uvec2 more) {
    sum.x += more.x;
    sum.y += more.y + (sum.x < more.x ? 1u : 0u);
}

// Adds x 2^places, 0 < places < 32, or x, to a sum of 64 bits, the lower word first.
void add_word(inout uvec2 sum, int x, uint places) {
    uint low = uint(x) << places;
    uint high = uint(x >> 31);
    if (places > 0u) {
        high = uint(x >> int(32u - places));
    }
    sum.x += low;
    sum.y += high + (sum.x < low ? 1u : 0u);
}

// Adds the sums of `add_product`.
void add_sums(inout uvec2 sum, ivec3 sums) {
    add_word(sum, sums.x, 24u);
    add_word(sum, sums.y, 12u);
    add_word(sum, sums.z, 0u);
}

// sum 2^exponent as float32, to the nearest, ties to even; 0 with its sign below 2^-126.
float assembled(uvec2 sum, int exponent) {
    uint sign = sum.y & 0x80000000u;
    uint low = sum.x, high = sum.y;
    if (sign != 0u) {
        low = 0u - low;
        high = ~high + (low == 0u ? 1u : 0u);
    }
    if ((low | high) == 0u) {
        return 0.0;
    }
    int top = high != 0u ? 32 + findMSB(high) : findMSB(low);
    // Places after the mantissa's 24 bits; what is there, with the first in the highest bit.
    int places = top - 23;
    uint mantissa, rest = 0u;
    bool more = false;
    if (places <= 0) {
        mantissa = low << uint(-places);
    } else if (places < 32) {
        mantissa = (low >> uint(places)) | (high << uint(32 - places));
        rest = low << uint(32 - places);
    } else if (places == 32) {
        mantissa = high;
        rest = low;
    } else {
        mantissa = high >> uint(places - 32);
        rest = (high << uint(64 - places)) | (low >> uint(places - 32));
        more = (low << uint(64 - places)) != 0u;
    }
    bool up = rest > 0x80000000u || (rest == 0x80000000u && (more || (mantissa & 1u) != 0u));
    mantissa += up ? 1u : 0u;
    int field = places + exponent + 150;
    if (field >= 255) {
        return uintBitsToFloat(sign | 0x7f800000u);
    }
    // A carry counts to the exponent.
    uint bits = field < 0 ? 0u : (uint(field) << 23) + mantissa - 0x00800000u;
    return uintBitsToFloat(sign | (bits < 0x00800000u ? 0u : bits));
}
