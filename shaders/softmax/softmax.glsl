#version 460
// Computes: y = e^(x - max) / sum e^(x - max) over the unmasked columns, 0 elsewhere and in rows without any; [rows,
// columns]. With MASKED, negative infinity is masked, too. With DROPOUT, of these y / (1 - p) where u >= p, else 0, as in
// dropout.glsl.
// Grid: x = ceil(rows / (256 / LANES)), continued along y.
// Reduction order: by held-rows.glsl, fixed by the columns: quads of a lane, then lanes.
// Assumes: QUADS cover the row if HELD; with VECTOR, columns are a multiple of 4; at most three axes of rows.
//# stored = ["float32", "float16", "bfloat16"]
//# numerics = ["run", "everywhere"]
//#
//# [builds]
//# softmax-dropout = { define = "DROPOUT", numerics = ["run"] }  # a fused operation
#include "counts.glsl"
#include "numbers.glsl"
#include "rows/held-rows.glsl"
#ifdef DROPOUT
#include "numbers/philox.glsl"
#endif

// 0: no keys are masked, 1: `keep` has the row's columns, 2: `keep` has one element per row.
layout(constant_id = 4) const uint MASK = 0;
// Whether keys j after the row's position in its axis are masked.
layout(constant_id = 5) const bool CAUSAL = false;
#ifndef DROPOUT
// Whether negative infinity in x is a masked entry, so that a row of nothing else is 0, not NaN.
layout(constant_id = 6) const bool MASKED = false;
#endif

INPUT_ROWS(1, x, QUAD)
layout(std430, binding = 2) readonly buffer Keep { uint keep[]; };
layout(std430, binding = 2) readonly buffer Keep4 { uvec4 keep_4[]; };
OUTPUT_ROWS(3, y, QUAD)

layout(push_constant) uniform Push {
    ROW_MEMBERS
    // Rows of axis -2, for CAUSAL.
    uint queries;
    // Rows as axes [.., size_1, size_2], and the strides of `keep` along them; 0 where it is broadcast.
    uint size_1;
    uint size_2;
    uint step_0;
    uint step_1;
    uint step_2;
#ifdef DROPOUT
    float p;
    SEED_MEMBERS
#endif
} push;

bvec4 both(bvec4 a, bvec4 b) {
    return bvec4(a.x && b.x, a.y && b.y, a.z && b.z, a.w && b.w);
}

// Which columns of group i are unmasked.
bvec4 kept(uint row, uint i, uint columns) {
    bvec4 there = inside(i, columns);
    if (CAUSAL) {
        there = both(there, lessThanEqual(columns_of(i), uvec4(row % push.queries)));
    }
    if (MASK != 0u && columns > 0u) {
        uint start = row / (push.size_1 * push.size_2) * push.step_0;
        start += row / push.size_2 % push.size_1 * push.step_1 + row % push.size_2 * push.step_2;
        uvec4 at = mix(uvec4(start), start + columns_of(i), there);
        uvec4 words;
        if (MASK == 2u) {
            words = uvec4(keep[start]);
        } else if (VECTOR) {
            words = keep_4[(inside(i, columns).x ? start + columns_of(i).x : start) / 4u];
        } else {
            words = uvec4(keep[at.x], keep[at.y], keep[at.z], keep[at.w]);
        }
        there = both(there, notEqual(words, uvec4(0u)));
    }
    return there;
}

#ifdef DROPOUT
vec4 dropped(uint start, uint i, vec4 quad) {
    uvec4 at = start + columns_of(i);
    bvec4 chosen;
    if (VECTOR) {
        chosen = kept_by_chance(push.p, at.x / 4u, SEED_WORDS, OFFSET_WORDS);
    } else {
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            chosen[j] = kept_by_chance(push.p, at[j] / 4u, SEED_WORDS, OFFSET_WORDS)[at[j] % 4u];
        }
    }
    return mix(vec4(0.0), quad / (1.0 - push.p), chosen);
}
#endif

void main() {
    OWN_ROW
    const float NONE = uintBitsToFloat(0xff800000u);

    vec4 most = vec4(NONE);
    bool any_kept = false;
    [[unroll]] for (uint i = 0u; i < count; i++) {
        bvec4 there = kept(row, i, columns);
        vec4 quad = mix(vec4(NONE), load_x(start, i, columns), there);
#ifndef DROPOUT
        if (MASKED) {
            there = both(there, notEqual(floatBitsToUint(quad), uvec4(0xff800000u)));
        }
#endif
        hold(i, quad);
        most = max(most, quad);
        any_kept = any_kept || any(there);
    }
    vec2 found = largest(vec2(largest_of(most), any_kept ? 1.0 : 0.0));

    // A NaN that the maximum ignored makes the sum NaN.
    vec4 sum = vec4(0.0);
    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 quad = HELD ? held[i] : mix(vec4(NONE), load_x(start, i, columns), kept(row, i, columns));
        quad = exponentials(quad - found.x);
        hold(i, quad);
        ADD_TERMS(sum, within(quad, i, columns, 0.0));
    }
    float scale = QUOTIENT(1.0, total(sum_of(sum)));

    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 quad = HELD ? held[i] : exponentials(mix(vec4(NONE), load_x(start, i, columns), kept(row, i, columns)) - found.x);
        quad = found.y > 0.0 ? PRODUCT(quad, scale) : vec4(0.0);
#ifdef DROPOUT
        quad = dropped(start, i, quad);
#endif
        store_y(start, i, columns, quad);
    }
}
