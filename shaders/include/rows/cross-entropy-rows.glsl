// Shared by cross-entropy and its gradient: constants, operands, of which x has the binding X, push block, and a row's
// values, if HELD.
#include "counts.glsl"
#include "numbers.glsl"
#include "rows/held-rows.glsl"
DECLARE_TOTALS

layout(constant_id = 4) const bool WEIGHTED = false;
layout(constant_id = 5) const bool SMOOTHED = false;

INPUT_ROWS(X, x, vec4)
layout(std430, binding = X + 1) readonly buffer Targets { uint targets[]; };
INPUT_ROWS(X + 2, weight, vec4)

layout(push_constant) uniform Push {
    ROW_MEMBERS
    float label_smoothing;
} push;

// The largest x of a row, which is kept if HELD.
float largest_x(uint start, uint count, uint columns) {
    const float NONE = uintBitsToFloat(0xff800000u);
    vec4 most = vec4(NONE);
    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 quad = within(load_x(start, i, columns), i, columns, NONE);
        hold(i, quad);
        most = max(most, quad);
    }
    return largest(vec2(largest_of(most), 0.0)).x;
}
