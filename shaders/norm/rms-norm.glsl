#version 460
// Computes: y = x / sqrt(mean(x^2) + eps) * weight; x, y [rows, columns], weight [columns]; with RESIDUAL, of x +
// residual; with ROTARY, columns of each head are then rotated in pairs as in rope.glsl; with QUANTIZED, as integers:
// normed-integers.glsl.
// Grid: x = ceil(rows / (256 / LANES)), continued along y.
// Reduction order: by held-rows.glsl, fixed by the columns: quads, also of parts, sums, groups of sums.
// Assumes: QUADS cover the row if HELD; with VECTOR, columns are a multiple of 4, and half a head's.
//# stored = ["float32", "float16", "bfloat16"]
//# numerics = ["run", "everywhere"]
//#
//# [builds]
//# residual-rms-norm = { define = "RESIDUAL", numerics = ["run"] }
//# rms-norm-quantize-rows = { define = "QUANTIZED", numerics = ["run"] }
//# rms-norm-rope = { define = "ROTARY", numerics = ["run"] }
#include "rows/normed-rows.glsl"

INPUT_ROWS(NEXT, weight, vec4)
#ifdef ROTARY
#define LAST NEXT + 3
INPUT(NEXT + 1, cosine, vec4)
INPUT(NEXT + 2, sine, vec4)
#else
#define LAST NEXT + 1
#endif
#ifndef QUANTIZED
OUTPUT_ROWS(LAST, y, QUAD)
#endif

layout(push_constant) uniform Push {
    ROW_MEMBERS
    float eps;
#ifdef ROTARY
    // Columns of half a head, rows per position, and rows of the angle tables.
    uint half_head;
    uint place_rows;
    uint angles;
#endif
} push;

#ifdef ROTARY
// The row's columns `at`; columns outside it are read from a valid index.
vec4 gather_x(uint start, uvec4 at) {
#if STORED == FLOAT32
    if (!VECTOR) {
        return vec4(x[start + at.x], x[start + at.y], x[start + at.z], x[start + at.w]);
    }
#endif
    return wide(x_4[(start + at.x) / 4u]);
}

vec4 gather_weight(uvec4 at) {
    if (VECTOR) {
        return weight_4[at.x / 4u];
    }
    return vec4(weight[at.x], weight[at.y], weight[at.z], weight[at.w]);
}

// Group i of a row, normalised, with the angles of its position: each column and its partner, half a head away, are
// rotated as one pair. The partner's element was read by a neighbour and is still in a cache.
vec4 turned(uint row, uint start, uint i, uint columns, vec4 normal, float scale) {
    uvec4 c = mix(uvec4(0u), columns_of(i), inside(i, columns));
    // A division takes about twenty operations: one division serves four neighbours.
    uvec4 place = VECTOR ? c.x % (2u * push.half_head) + uvec4(0u, 1u, 2u, 3u) : c % (2u * push.half_head);
    bvec4 second = greaterThanEqual(place, uvec4(push.half_head));
    uvec4 partner = mix(c + push.half_head, c - push.half_head, second);
    vec4 other = gather_x(columns > 0u ? start : 0u, partner) * scale * gather_weight(partner);
    uvec4 angle = row / push.place_rows % push.angles * push.half_head + mix(place, place - push.half_head, second);
    vec4 c_4;
    vec4 s_4;
    if (VECTOR) {
        c_4 = cosine_4[angle.x / 4u];
        s_4 = sine_4[angle.x / 4u];
    } else {
        c_4 = vec4(cosine[angle.x], cosine[angle.y], cosine[angle.z], cosine[angle.w]);
        s_4 = vec4(sine[angle.x], sine[angle.y], sine[angle.z], sine[angle.w]);
    }
    return normal * c_4 + mix(-other, other, second) * s_4;
}
#endif

#ifdef QUANTIZED
// The result of a group of columns, given 1 / sqrt(mean(x^2) + eps).
vec4 normal_of(vec4 quad, uint i, uint columns, vec2 scale) {
    precise vec4 normal = quad * scale.y;
    normal *= load_weight(0u, i, columns);
    return normal;
}
#include "rows/normed-integers.glsl"
#endif

void main() {
    OWN_ROW

    uint parts = parts_of(push.columns);
    uint each = part_quads(push.columns);
    DECLARE_SUMS(squares)
    for (uint part = 0u; part < parts; part++) {
        uint first = first_of(part, each);
        [[unroll]] for (uint i = 0u; i < each; i++) {
            vec4 quad = within(load_row(start, first + i, columns), first + i, columns, 0.0);
            if (PART_HELD) {
                held[i] = quad;
            }
            ADD_SQUARES(squares, i, quad);
        }
    }
    float scale = QUOTIENT(1.0, sqrt(QUOTIENT(total(squares), float(push.columns)) + SETTLED(push.eps)));

#ifdef QUANTIZED
    end_row(row, columns, count, vec2(0.0, scale));
#else
    // The last part is still held.
    for (uint turn = 1u; turn <= parts; turn++) {
        uint first = first_of(parts - turn, each);
        if (IN_PARTS && turn > 1u) {
            [[unroll]] for (uint i = 0u; i < each; i++) {
                held[i] = load_row(start, first + i, columns);
            }
        }
        [[unroll]] for (uint i = 0u; i < each; i++) {
            vec4 quad = PART_HELD ? held[i] : load_row(start, first + i, columns);
            quad = PRODUCT(PRODUCT(quad, scale), load_weight(0u, first + i, columns));
#ifdef ROTARY
            quad = turned(row, start, first + i, columns, quad, scale);
#endif
            store_y(start, first + i, columns, quad);
        }
    }
#endif
}
