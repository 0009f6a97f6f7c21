#version 460
// Computes: q = clamp(round(x scale) + zero, -128, 127), ties to even, or at random with STOCHASTIC; of ternary values
// clamp(round(x scale), -1, 1), of signs x > 0, with UNPACKED a byte each; packed four bytes per word, each row in whole
// bytes. x [rows, columns], times factors [columns] with FACTORS; with PAIRS a zero follows each scale.
// Grid: x = ceil(words / push.words_per_group); 256 invocations loop over words, which may span the end of a row.
// Reduction order: none.
// Assumes: elements < 2^32; scale is NaN where x is not finite, and q is 0 then.
//# numerics = ["run", "everywhere"]
//#
//# [builds]
//# quantize-rows-affine = { define = "AFFINE" }
#include "counts.glsl"
#include "arithmetic.glsl"
#include "levels.glsl"
#include "numbers/philox.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 1) const bool STOCHASTIC = false;
#ifndef AFFINE
layout(constant_id = 0) const uint LEVELS = INT8;
layout(constant_id = 3) const bool UNPACKED = false;
#define PAIRS false
#else
layout(constant_id = 0) const bool PAIRS = false;
layout(std430, binding = 5) readonly buffer Zero { int zero[]; };
#define LEVELS INT8
#define UNPACKED false
#endif
layout(constant_id = 2) const bool FACTORS = false;

layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) readonly buffer Factors { float factors[]; };
layout(std430, binding = 3) readonly buffer Scale { float scale[]; };
layout(std430, binding = 4) writeonly buffer Q { uint q[]; };

layout(push_constant) uniform Push {
    ROW_MEMBERS
    // Bytes of a row of q.
    uint row_bytes;
    uint words_per_group;
    // Columns of a group, and scales of a row, 0 if rows share one.
    uint group;
    uint per_row;
    SEED_MEMBERS
} push;

// The integer of an element; `chance` is uniform in 0 .. 2^24.
int quantized(uint row, uint column, uint chance) {
    precise float element = SETTLED(x[row * push.columns + column]);
    if (FACTORS) {
#ifdef EVERYWHERE
        element = settled_product(element, settled(factors[column]));
#else
        element *= factors[column];
#endif
    }
    if (LEVELS == BINARY) {
        // Positive, not 0 and no NaN.
        return floatBitsToUint(element) - 1u < 0x7f800000u ? 1 : -1;
    }
    uint place = row * push.per_row + column / push.group;
    float factor = scale[PAIRS ? 2u * place : place];
    if ((floatBitsToUint(factor) & 0x7fffffffu) > 0x7f800000u) {
        return 0;
    }
    precise float product = PRODUCT(element, factor);
    float scaled = clamp(product, -512.0, 512.0);
    float rounded = roundEven(scaled);
    if (STOCHASTIC) {
        float below = floor(scaled);
        rounded = below + (float(chance) < (scaled - below) * 16777216.0 ? 1.0 : 0.0);
    }
    if (LEVELS == TERNARY) {
        return int(clamp(rounded, -1.0, 1.0));
    }
#ifdef AFFINE
    int middle = PAIRS ? int(scale[2u * place + 1u]) : zero[place];
    return clamp(int(rounded) + middle, -128, 127);
#else
    return clamp(int(rounded), -128, 127);
#endif
}

// Byte `place` of all rows.
uint packed(uint place, uint bytes, uint chance) {
    if (place >= bytes) {
        return 0u;
    }
    uint row = place / push.row_bytes;
    if (LEVELS == INT8 || UNPACKED) {
        return uint(quantized(row, place % push.row_bytes, chance)) & 0xffu;
    }
    uint start = place % push.row_bytes * per_byte(LEVELS);
    uint end = min(start + per_byte(LEVELS), push.columns);
    uint byte = 0u;
    for (uint column = start; column < end; column++) {
        int level = quantized(row, column, 0u);
        byte |= (LEVELS == TERNARY ? uint(level + 1) : uint(level > 0)) << (8u / per_byte(LEVELS) * (column - start));
    }
    return byte;
}

void main() {
    uint first = gl_WorkGroupID.x * push.words_per_group;
    uint all = batch_rows(push.rows_of, push.rows) * push.row_bytes;
    uint last = min(first + push.words_per_group, (all + 3u) / 4u);
    for (uint word = first + gl_LocalInvocationIndex; word < last; word += 256u) {
        uvec4 chance = uvec4(0u);
        if (STOCHASTIC) {
            chance = words_of_quad(word, SEED_WORDS, OFFSET_WORDS, uvec2(0u)) >> 8u;
        }
        uint bytes = 0u;
        for (uint i = 0u; i < 4u; i++) {
            bytes |= packed(4u * word + i, all, chance[i]) << (8u * i);
        }
        q[word] = bytes;
    }
}
