#version 460
// Computes: what `quantize-rows` and `quantize-rows-scales` do for a scale per row, in one dispatch: int8 by the largest
// magnitude, or with AFFINE by the range, of which a zero follows each scale; x [rows, columns], times factors [columns] with
// FACTORS. A row with infinity or NaN has the scale NaN and integers 0.
// Grid: ceil(rows / (256 / LANES)) workgroups, continued along y; LANES invocations share a row, of which each keeps the
// elements of UNITS times sixteen bytes if HELD.
// Reduction order: irrelevant; maxima.
// Assumes: columns a multiple of 4; with OCTS, in 16 bits, of 8.
//# stored = ["float32", "float16", "bfloat16"]
//# numerics = ["run", "everywhere"]
#extension GL_EXT_control_flow_attributes : require
#include "counts.glsl"
#include "numbers/integers.glsl"
#include "numbers/quotient.glsl"
#include "stored.glsl"

layout(constant_id = 0) const uint LANES = 32;
layout(constant_id = 1) const uint UNITS = 1;
layout(constant_id = 2) const bool HELD = true;
layout(constant_id = 3) const bool AFFINE = false;
layout(constant_id = 4) const bool FACTORS = false;
layout(constant_id = 5) const bool OCTS = false;
#include "rows/row-lanes.glsl"

#if STORED == FLOAT32
layout(std430, binding = 1) readonly buffer X { uvec4 x[]; };
#else
// Four elements, and eight.
layout(std430, binding = 1) readonly buffer X { uvec2 x[]; };
layout(std430, binding = 1) readonly buffer Octs { uvec4 x_8[]; };
#endif
layout(std430, binding = 2) readonly buffer Factors { vec4 factors[]; };
layout(std430, binding = 3) writeonly buffer Q { uint q[]; };
layout(std430, binding = 3) writeonly buffer Pairs { uvec2 q_2[]; };
layout(std430, binding = 4) writeonly buffer Scale { float scale[]; };

ROW_PUSH

// Elements of a unit.
const uint EACH = OCTS ? 8u : 4u;

uvec4 load(uint at) {
#if STORED == FLOAT32
    return x[at];
#else
    return OCTS ? x_8[at] : uvec4(x[at], 0u, 0u);
#endif
}

// Elements 4 half .. 4 half + 3 of a unit, whose first column is `column`.
vec4 elements(uvec4 unit, uint part, uint column) {
#if STORED == FLOAT32
    precise vec4 quad = SETTLED(uintBitsToFloat(unit));
#else
    precise vec4 quad = wide(part == 0u ? unit.xy : unit.zw);
#endif
    if (FACTORS) {
#ifdef EVERYWHERE
        quad = settled_product(quad, settled(factors[column / 4u + part]));
#else
        quad *= factors[column / 4u + part];
#endif
    }
    return quad;
}

#ifdef EVERYWHERE
#define HALF_OF(V) vec2(0.5) * V
#else
#define HALF_OF(V) 0.5 * V
#endif

// The larger of `most` and of the largest magnitude, or with AFFINE of half the largest element and half the least one negated,
// whose sum is finite; infinity where an element is infinite or NaN.
vec2 joined(vec2 most, vec4 quad) {
    float size = largest_of(abs(quad));
    vec2 own = AFFINE ? HALF_OF(vec2(largest_of(quad), largest_of(-quad))) : vec2(size, 0.0);
    // The largest of a NaN and a number may be either.
    return is_finite(quad) ? max(most, own) : vec2(INFINITY);
}

void main() {
    uint row = own_row();
    bool there = row < batch_rows(push.rows_of, push.rows);
    // Invocations past the last row take part in the barriers, with the first.
    uint units = push.columns / EACH;
    uint start = there ? row * units : 0u;
    uint count = HELD ? UNITS : (units + LANES - 1u) / LANES;
    vec4 held[UNITS * EACH / 4u];
    vec2 most = vec2(0.0);
    if (HELD) {
        uvec4 stored[UNITS];
        // Past the end of the row, the last unit stands in.
        [[unroll]] for (uint i = 0u; i < UNITS; i++) {
            stored[i] = load(start + min(i * LANES + lane(), units - 1u));
        }
        [[unroll]] for (uint i = 0u; i < UNITS; i++) {
            uint column = EACH * min(i * LANES + lane(), units - 1u);
            [[unroll]] for (uint part = 0u; part < EACH / 4u; part++) {
                vec4 quad = elements(stored[i], part, column);
                held[i * EACH / 4u + part] = quad;
                most = joined(most, quad);
            }
        }
    } else {
        for (uint i = 0u; i < count; i++) {
            uint unit = min(i * LANES + lane(), units - 1u);
            for (uint part = 0u; part < EACH / 4u; part++) {
                most = joined(most, elements(load(start + unit), part, EACH * unit));
            }
        }
    }
    most = largest(most);
    bool finite = max(most.x, most.y) < INFINITY;
    float factor = uintBitsToFloat(0x7fc00000u);
    float middle = 0.0;
    if (finite && AFFINE) {
        factor = quotient(127.5, max(most.x + most.y, 5e-6));
        precise float least = -2.0 * most.y * factor;
        middle = clamp(-128.0 - roundEven(least), -128.0, 127.0);
    } else if (finite) {
        factor = quotient(127.0, max(most.x, 1e-5));
    }
    if (there) {
        [[unroll]] for (uint i = 0u; i < count; i++) {
            uint unit = i * LANES + lane();
            if (unit < units) {
                uvec2 words = uvec2(0u);
                [[unroll]] for (uint part = 0u; part < EACH / 4u; part++) {
                    vec4 quad;
                    if (HELD) {
                        quad = held[HELD ? i * EACH / 4u + part : 0u];
                    } else {
                        quad = elements(load(start + unit), part, EACH * unit);
                    }
                    words[part] = finite ? integers(quad, factor, middle) : 0u;
                }
                if (OCTS) {
                    q_2[start + unit] = words;
                } else {
                    q[start + unit] = words.x;
                }
            }
        }
        if (lane() == 0u) {
            if (AFFINE) {
                scale[2u * row] = factor;
                scale[2u * row + 1u] = middle;
            } else {
                scale[row] = factor;
            }
        }
    }
}
