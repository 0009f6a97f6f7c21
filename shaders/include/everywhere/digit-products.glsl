// Sums of products of digits on matrix cores, five by weight, as one number; after exact-integers.glsl.
// sum 2^exponent, as `assembled` has it, from the conversion of 64 bits.
float assembled_sum(int64_t sum, int exponent) {
    uint bits = floatBitsToUint(float(sum));
    uint sign = bits & 0x80000000u;
    int field = int((bits >> 23) & 0xffu);
    uint moved = bits + (uint(exponent) << 23);
    moved = field + exponent < 1 ? sign : (field + exponent > 254 ? sign | 0x7f800000u : moved);
    return uintBitsToFloat(field == 0 ? 0u : moved);
}

// The same of low + 2^16 middle + 2^32 high.
float assembled_words(int low, int middle, int high, int exponent) {
    return assembled_sum((int64_t(high) << 32) + (int64_t(middle) << 16) + int64_t(low), exponent);
}

// The same of s0 + 2^8 s1 + .. + 2^32 s4.
float assembled_digits(int s0, int s1, int s2, int s3, int s4, int exponent) {
    return assembled_sum((int64_t(s4) << 32) + (int64_t(s3) << 24) + (int64_t(s2) << 16) + (int64_t(s1) << 8) + int64_t(s0), exponent);
}
