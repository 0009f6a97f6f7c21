// Elements in 16 bits, eight in a quad. After stored.glsl.
#if STORED == BFLOAT16
const uint EXPONENT = 0x7f80u;
#else
const uint EXPONENT = 0x7c00u;
#endif

// The same with zeros for NaN and infinities.
uvec4 finite(uvec4 eight) {
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        eight[i] &= (eight[i] & EXPONENT) == EXPONENT ? 0xffff0000u : 0xffffffffu;
        eight[i] &= (eight[i] & EXPONENT << 16) == EXPONENT << 16 ? 0xffffu : 0xffffffffu;
    }
    return eight;
}
