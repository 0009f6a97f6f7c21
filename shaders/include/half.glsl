// Whether packHalf2x16 rounds to the nearest, ties to even: a device is asked when it is opened.
layout(constant_id = 64) const bool PACKS_TO_NEAREST = false;

// Four numbers as float16, two to a word, the first in the lower half; to the nearest, ties to even, by whole numbers alone.
// What is too large becomes infinity, NaN stays NaN.
uvec2 halves_of(vec4 quad) {
    uvec4 bits = floatBitsToUint(quad);
    uvec4 magnitude = bits & 0x7fffffffu;
    // The exponent counts from 2^-14, 65536 stands for infinity; what is cut off is added first, so that it carries.
    uvec4 normal = (min(magnitude, uvec4(0x47800000u)) - 0x37fff001u + ((magnitude >> 13) & 1u)) >> 13;
    // Below 2^-14 the spacing is 2^-24: adding 1/2 puts it into the last bit, which rounds as the sum does.
    precise vec4 shifted = uintBitsToFloat(magnitude) + 0.5;
    uvec4 small = floatBitsToUint(shifted) - 0x3f000000u;
    uvec4 halves = mix(normal, small, lessThan(magnitude, uvec4(0x38800000u)));
    halves = mix(halves, uvec4(0x7e00u), greaterThan(magnitude, uvec4(0x7f800000u)));
    halves |= (bits >> 16) & 0x8000u;
    return halves.xz | halves.yw << 16;
}

// The same, where packHalf2x16 may not round as it likes by it. A driver may take unpackHalf2x16(packHalf2x16(x)) for x: what is
// to be read as rounded in the same shader comes from `halves_of`.
uvec2 pack_halves(vec4 quad) {
    return PACKS_TO_NEAREST ? uvec2(packHalf2x16(quad.xy), packHalf2x16(quad.zw)) : halves_of(quad);
}
