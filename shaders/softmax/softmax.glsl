#version 460
// Computes: y = e^(x - max) / sum e^(x - max) over the unmasked columns, 0 elsewhere and in rows without any; [rows,
// columns]. With MASKED, negative infinity is masked, too. With DROPOUT, of these y / (1 - p) where u >= p, else 0, as in
// dropout.glsl. With PARTS, the state of each part of long rows, parts [rows, parts, 2], of which JOINED makes y.
// Grid: x = ceil(rows / (256 / LANES)), with PARTS and JOINED a workgroup for each part, continued along y.
// Reduction order: by held-rows.glsl, fixed by the columns: quads, sums, groups of sums; of parts, those of a lane in turn, then
// lanes.
// Assumes: QUADS cover the row if HELD; with VECTOR, columns are a multiple of 4; at most three axes of rows.
//# stored = ["float32", "float16", "bfloat16"]
//# numerics = ["run", "everywhere"]
//#
//# [builds]
//# softmax-dropout = { define = "DROPOUT", numerics = ["run"] }  # a fused operation
//# softmax-parts = { define = "PARTS", numerics = ["run"] }  # where rows are long and few
//# softmax-joined = { define = "JOINED", numerics = ["run"] }
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
#ifdef PARTS
layout(std430, binding = 3) writeonly buffer Parts { vec2 parts[]; };
#elif defined(JOINED)
layout(std430, binding = 3) readonly buffer Parts { vec2 parts[]; };
OUTPUT_ROWS(4, y, QUAD)
#else
OUTPUT_ROWS(3, y, QUAD)
#endif

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

#define NONE uintBitsToFloat(0xff800000u)

bool is_none(float x) {
    return floatBitsToUint(x) == 0xff800000u;
}

// Group i of a row, masked columns negative infinity; `any_kept` becomes true with an unmasked one.
vec4 load_kept(uint row, uint start, uint i, uint columns, inout bool any_kept) {
    bvec4 there = kept(row, i, columns);
    vec4 quad = mix(vec4(NONE), load_x(start, i, columns), there);
#ifndef DROPOUT
    if (MASKED) {
        there = both(there, notEqual(floatBitsToUint(quad), uvec4(0xff800000u)));
    }
#endif
    any_kept = any_kept || any(there);
    return quad;
}

// The largest element of a part from group `first`, which is kept, the sum of e^(x - max), and whether a column is unmasked.
// A NaN that the maximum ignores makes the sum NaN. Outside the row are exponentials of negative infinity.
vec3 state_of(uint row, uint start, uint first, uint count, uint columns) {
    vec4 most = vec4(NONE);
    bool any_kept = false;
    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 quad = load_kept(row, start, first + i, columns, any_kept);
        if (PART_HELD) {
            held[i] = quad;
        }
        most = max(most, quad);
    }
    vec2 found = largest(vec2(largest_of(most), any_kept ? 1.0 : 0.0));
    // Another part may have larger elements.
    float shift = IN_PARTS && is_none(found.x) ? 0.0 : found.x;

    DECLARE_SUMS(sum)
    [[unroll]] for (uint i = 0u; i < count; i++) {
        bool ignored = false;
        vec4 quad = PART_HELD ? held[i] : load_kept(row, start, first + i, columns, ignored);
        quad = exponentials_of_negatives(quad - shift);
        hold(i, quad);
        ADD_TERMS(sum, i, quad);
    }
    return vec3(found.x, total(sum), found.y);
}

#ifndef EVERYWHERE
// The state of a part as two numbers: an unmasked one of negative infinity alone has the sum 1, one without columns 0.
vec2 packed(vec3 state) {
    return vec2(state.x, is_none(state.x) && state.z > 0.0 ? 1.0 : state.y);
}

// What the sum of a part with maximum x counts where `most` is the maximum.
float weight_of(float x, float most) {
    return x == most ? 1.0 : exponential_of_negative(x - most);
}

vec2 joined(vec2 a, vec2 b) {
    float most = max(a.x, b.x);
    return vec2(most, fma(b.y, weight_of(b.x, most), a.y * weight_of(a.x, most)));
}

// The state of a row, of whose parts each lane has some.
vec3 over_lanes(vec2 own) {
    float most = largest(vec2(own.x, 0.0)).x;
    float sum = total(own.y * weight_of(own.x, most));
    return vec3(most, sum, sum == 0.0 ? 0.0 : 1.0);
}
#endif

void main() {
#if defined(PARTS) || defined(JOINED)
    uint parts_each = parts_of(push.columns);
    uint place = own_row();
    uint row = place / parts_each;
    uint columns = row < batch_rows(push.rows_of, push.rows) ? push.columns : 0u;
    uint start = row * push.columns;
    uint first = place % parts_each * QUADS;
#else
    OWN_ROW
    uint parts_each = parts_of(push.columns);
#endif
    uint each = part_quads(push.columns);
    vec3 state = vec3(0.0);
    vec2 own = vec2(NONE, 0.0);
#ifdef PARTS
    state = state_of(row, start, first, each, columns);
    if (lane() == 0u && columns > 0u) {
        parts[place] = packed(state);
    }
#else
#ifdef JOINED
    if (columns > 0u) {
        for (uint part = lane(); part < parts_each; part += LANES) {
            own = joined(own, parts[row * parts_each + part]);
        }
    }
    state = over_lanes(own);
#else
    for (uint part = 0u; part < parts_each; part++) {
        state = state_of(row, start, first_of(part, each), each, columns);
#ifndef EVERYWHERE
        if (IN_PARTS && lane() == part % LANES) {
            own = joined(own, packed(state));
        }
#endif
    }
#ifndef EVERYWHERE
    if (IN_PARTS) {
        state = over_lanes(own);
    }
#endif
#endif
    float scale = QUOTIENT(1.0, state.y);

    // The last part is still held.
#ifdef JOINED
    const uint turns = 1u;
#else
    uint turns = parts_each;
#endif
    for (uint turn = 1u; turn <= turns; turn++) {
#ifndef JOINED
        uint first = first_of(parts_each - turn, each);
        bool again = IN_PARTS && turn > 1u;
#else
        const bool again = true;
#endif
        bool ignored = false;
        if (again) {
            [[unroll]] for (uint i = 0u; i < each; i++) {
                held[i] = load_kept(row, start, first + i, columns, ignored);
            }
        }
        [[unroll]] for (uint i = 0u; i < each; i++) {
            vec4 quad = PART_HELD ? held[i] : load_kept(row, start, first + i, columns, ignored);
            if (!HELD) {
                quad = exponentials_of_negatives(quad - state.x);
            }
            quad = state.z > 0.0 ? PRODUCT(quad, scale) : vec4(0.0);
#ifdef DROPOUT
            quad = dropped(start, first + i, quad);
#endif
            store_y(start, first + i, columns, quad);
        }
    }
#endif
}
