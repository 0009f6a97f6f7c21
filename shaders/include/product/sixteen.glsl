// A weight of integers, [n, k] of LEVELS at binding WEIGHT, and rows q of int8, sixteen at a time. After levels.glsl.
layout(std430, binding = 1) readonly buffer Q { uvec4 q[]; };
layout(std430, binding = WEIGHT) readonly buffer Words { uint weight[]; };
layout(std430, binding = WEIGHT) readonly buffer Quads { uvec4 weight_4[]; };

// Sixteen integers of the weight: in four words or, as stored, in the bits of one or in the lower half of it.
uvec4 sixteen(uint at) {
    if (LEVELS == INT8) {
        return weight_4[at];
    }
    return uvec4(LEVELS == TERNARY ? weight[at] : weight[at / 2u] >> (16u * (at % 2u)));
}
