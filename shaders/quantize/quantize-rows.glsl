#version 460
// Computes: q[m, k] = clamp(round(x[m, k] scale[m]), -128, 127), ties to even, four per word; x, q [rows, columns].
// Grid: x = ceil(words / push.words_per_group); 256 invocations loop over words, which may span the end of a row.
// Reduction order: none.
// Assumes: elements < 2^32; x is finite.

layout(local_size_x = 256) in;

layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Scale { float scale[]; };
layout(std430, binding = 2) writeonly buffer Q { uint q[]; };

layout(push_constant) uniform Push {
    uint elements;
    uint columns;
    uint words;
    uint words_per_group;
} push;

uint quantized(uint place) {
    if (place >= push.elements) {
        return 0u;
    }
    precise float scaled = x[place] * scale[place / push.columns];
    return uint(int(clamp(roundEven(scaled), -128.0, 127.0))) & 0xffu;
}

void main() {
    uint first = gl_WorkGroupID.x * push.words_per_group;
    uint last = min(first + push.words_per_group, push.words);
    for (uint word = first + gl_LocalInvocationIndex; word < last; word += 256u) {
        uint bytes = 0u;
        for (uint i = 0u; i < 4u; i++) {
            bytes |= quantized(4u * word + i) << (8u * i);
        }
        q[word] = bytes;
    }
}
