// Integers of few bits, numbered as in `Levels` of `src/ops/levels.rs`; `src/quant/format.rs` draws how they are packed.
#define INT8 0u
#define TERNARY 1u
#define BINARY 2u

// Values per byte.
uint per_byte(uint levels) {
    return levels == INT8 ? 1u : levels == TERNARY ? 4u : 8u;
}

// The signed integer in byte `place % 4` of a word.
int integer_at(uint word, uint place) {
    return bitfieldExtract(int(word), int(8u * (place % 4u)), 8);
}

// The value of `column` of a row, in the byte that holds it.
int level_in(uint levels, uint byte, uint column) {
    if (levels == TERNARY) {
        return int(bitfieldExtract(byte, int(2u * (column % 4u)), 2)) - 1;
    }
    return 2 * int(bitfieldExtract(byte, int(column % 8u), 1)) - 1;
}

// Four values, one per byte: `codes` are those of four ternary values in a byte, of four signs in four bits.
uint bytes_of_four(uint levels, uint codes) {
    // Each code into a byte of its own, 0, 1 and 2 of ternary values, 0 and 2 of signs.
    codes = levels == TERNARY ? (codes | codes << 6u | codes << 12u | codes << 18u) & 0x03030303u
                              : ((codes | codes << 7u | codes << 14u | codes << 21u) & 0x01010101u) * 2u;
    // Less 1 in each byte, without a borrow.
    return (codes + 0x7f7f7f7fu) ^ 0x80808080u;
}

// Byte `place` of the words that start with `word`.
uint byte_of(uint word, uint place) {
    return bitfieldExtract(word, int(8u * (place % 4u)), 8);
}
