// Whether packHalf2x16 rounds to the nearest, ties to even: probed when a device is opened.
layout(constant_id = 64) const bool PACKS_TO_NEAREST = false;

// Four numbers as float16, two per word, the first in the lower half; rounded to the nearest, ties to even, with
// integer operations only. Values that are too large become infinity, NaN stays NaN.
uvec2 halves_of(vec4 quad) {
    uvec4 bits = floatBitsToUint(quad);
    uvec4 magnitude = bits & 0x7fffffffu;
    // The exponent is relative to 2^-14, 65536 represents infinity; the rounding term is added before truncation, so
    // that it carries.
    uvec4 normal = (min(magnitude, uvec4(0x47800000u)) - 0x37fff001u + ((magnitude >> 13) & 1u)) >> 13;
    // Below 2^-14 the spacing is 2^-24: adding 1/2 moves it into the last bit, so that the addition rounds.
    precise vec4 shifted = uintBitsToFloat(magnitude) + 0.5;
    uvec4 small = floatBitsToUint(shifted) - 0x3f000000u;
    uvec4 halves = mix(normal, small, lessThan(magnitude, uvec4(0x38800000u)));
    halves = mix(halves, uvec4(0x7e00u), greaterThan(magnitude, uvec4(0x7f800000u)));
    halves |= (bits >> 16) & 0x8000u;
    return halves.xz | halves.yw << 16;
}

// The same, with packHalf2x16 where its rounding is known. A driver may replace unpackHalf2x16(packHalf2x16(x)) with x:
// use `halves_of` for values whose rounded form is read in the same shader.
uvec2 pack_halves(vec4 quad) {
    return PACKS_TO_NEAREST ? uvec2(packHalf2x16(quad.xy), packHalf2x16(quad.zw)) : halves_of(quad);
}
