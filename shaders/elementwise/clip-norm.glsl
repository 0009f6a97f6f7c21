#version 460
// Computes: norm = unscale sqrt(squares); factor = unscale / max(1, (norm + eps) / max_norm), NaN for a norm that is not
//           finite; elementwise, unscale 1 without SCALED.
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: none.
// Assumes: elements < 2^32; rows_per_group * columns is a multiple of 4.
#include "elements.glsl"
#include "numbers.glsl"

layout(std430, binding = 1) readonly buffer Squares { float squares[]; };
layout(std430, binding = 2) readonly buffer MaxNorm { float max_norm[]; };
layout(std430, binding = 3) readonly buffer Unscale { float unscale[]; };
layout(std430, binding = 4) writeonly buffer Norm { float norm[]; };
layout(std430, binding = 5) writeonly buffer Factor { float factor[]; };
layout(constant_id = 0) const bool SCALED = false;

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
    float eps;
} push;

void one(uint place) {
    precise float by = SCALED ? unscale[0] : 1.0;
    precise float own = square_root(squares[place]) * by;
    precise float above = (own + push.eps) / max_norm[0];
    precise float limit = 1.0 / max(above, 1.0);
    bool finite = (floatBitsToUint(own) & 0x7fffffffu) < 0x7f800000u;
    norm[place] = own;
    factor[place] = finite ? limit * by : uintBitsToFloat(0x7fc00000u);
}

#define SINGLY
#include "elements-main.glsl"
