#version 460
// Computes: what `quantize-rows` and `quantize-rows-scales` do for a scale per row, in one dispatch: int8 by the largest
// magnitude, or with AFFINE by the range, of which a zero follows each scale; x [rows, columns], times factors [columns] with
// FACTORS. A row with infinity or NaN has the scale NaN and integers 0.
// Grid: as held-rows.glsl.
// Reduction order: irrelevant; maxima.
// Assumes: VECTOR.
//# stored = ["float32", "float16", "bfloat16"]
#include "counts.glsl"
#include "held-rows.glsl"
#include "quotient.glsl"

layout(constant_id = 4) const bool AFFINE = false;
layout(constant_id = 5) const bool FACTORS = false;

INPUT_ROWS(1, x, QUAD)
layout(std430, binding = 2) readonly buffer Factors { vec4 factors[]; };
layout(std430, binding = 3) writeonly buffer Q { uint q[]; };
layout(std430, binding = 4) writeonly buffer Scale { float scale[]; };

layout(push_constant) uniform Push {
    ROW_MEMBERS
} push;

#define INFINITY uintBitsToFloat(0x7f800000u)

vec4 quad_of(uint start, uint i, uint columns) {
    precise vec4 quad = load_x(start, i, columns);
    if (FACTORS) {
        quad *= factors[min(columns_of(i).x, max(columns, 4u) - 4u) / 4u];
    }
    return within(quad, i, columns, 0.0);
}

void main() {
    OWN_ROW
    vec4 held[8];
    // The largest magnitude or, with AFFINE, the ends of a range that includes 0, the lower one negated; infinity where any
    // element is infinite or NaN.
    vec2 most = vec2(0.0);
    for (uint i = 0u; i < count; i++) {
        vec4 quad = quad_of(start, i, columns);
        if (HELD) {
            held[i] = quad;
        }
        vec2 own = AFFINE ? vec2(largest_of(quad), largest_of(-quad)) : vec2(largest_of(abs(quad)), 0.0);
        bool finite = all(lessThan(floatBitsToUint(abs(quad)), uvec4(0x7f800000u)));
        most = finite ? max(most, own) : vec2(INFINITY);
    }
    most = largest(most);
    bool finite = max(most.x, most.y) < INFINITY;
    float factor = uintBitsToFloat(0x7fc00000u);
    float middle = 0.0;
    if (finite && AFFINE) {
        // Half of each, so that the sum is finite.
        factor = quotient(127.5, max(0.5 * most.x + 0.5 * most.y, 5e-6));
        precise float least = -most.y * factor;
        middle = clamp(-128.0 - roundEven(least), -128.0, 127.0);
    } else if (finite) {
        factor = quotient(127.0, max(most.x, 1e-5));
    }
    for (uint i = 0u; i < count; i++) {
        uint column = columns_of(i).x;
        if (column < columns) {
            precise vec4 scaled = (HELD ? held[i] : quad_of(start, i, columns)) * factor;
            ivec4 integers = ivec4(clamp(roundEven(scaled) + middle, -128.0, 127.0)) & 0xff;
            uint word = uint(integers.x | integers.y << 8 | integers.z << 16 | integers.w << 24);
            q[(start + column) / 4u] = finite ? word : 0u;
        }
    }
    if (lane() == 0u && columns > 0u) {
        if (AFFINE) {
            scale[2u * row] = factor;
            scale[2u * row + 1u] = middle;
        } else {
            scale[row] = factor;
        }
    }
}
