// The end of a norm whose rows become integers, as quantize-rows-held.glsl has it: q [rows, columns] int8 and scale [rows] of the
// rows as they are stored, times factors [columns] with FACTORS; with KEPT y [rows, columns], too. After held-rows.glsl, `held`
// and `normal_of`; bindings continue from LAST. Assumes: columns a multiple of 4.
#include "numbers/quotient.glsl"
#include "numbers/integers.glsl"
layout(constant_id = 4) const bool FACTORS = false;
layout(constant_id = 5) const bool KEPT = false;

INPUT_ROWS(LAST, factors, vec4)
layout(std430, binding = LAST + 1) writeonly buffer Q { uint q[]; };
layout(std430, binding = LAST + 2) writeonly buffer Scale { float scale[]; };
OUTPUT_ROWS(LAST + 3, y, QUAD)

// What is rounded, of a group of columns; 0 outside the row.
vec4 factored(vec4 normal, uint i, uint columns) {
#if STORED == FLOAT32
    precise vec4 quad = normal;
#else
    // With a zero that compilers do not know: some take an unpacked pack for what was packed, not rounded.
    precise vec4 quad = wide(narrow(normal) | push.columns >> 31u);
#endif
    if (FACTORS) {
        quad *= load_factors(0u, i, columns);
    }
    return within(quad, i, columns, 0.0);
}

// Must be called by every invocation of the workgroup.
void end_row(uint row, uint columns, uint count, vec2 moments) {
    uint start = row * push.columns;
    vec2 most = vec2(0.0);
    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 normal = normal_of(HELD ? held[HELD ? i : 0u] : load_row(start, i, columns), i, columns, moments);
        if (KEPT) {
            store_y(start, i, columns, normal);
        }
        vec4 quad = factored(normal, i, columns);
        if (HELD) {
            held[HELD ? i : 0u] = quad;
        }
        most.x = is_finite(quad) ? max(most.x, largest_of(abs(quad))) : INFINITY;
    }
    most = largest(most);
    bool finite = most.x < INFINITY;
    float factor = uintBitsToFloat(0x7fc00000u);
    if (finite) {
        factor = quotient(127.0, max(most.x, 1e-5));
    }
    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 quad;
        if (HELD) {
            quad = held[HELD ? i : 0u];
        } else {
            quad = factored(normal_of(load_row(start, i, columns), i, columns, moments), i, columns);
        }
        if (columns_of(i).x < columns) {
            q[(start + columns_of(i).x) / 4u] = finite ? integers(quad, factor, 0.0) : 0u;
        }
    }
    if (lane() == 0u && columns > 0u) {
        scale[row] = factor;
    }
}
