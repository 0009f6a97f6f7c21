#version 460
// Computes: heads of rows x [M, columns], each number split in two (split.glsl), for attention-split with PREPARED: y
// [M, H, 1 + 2 EIGHTS] quads, the inverse of the head's factor, or NaN where sums must be plain, in the first, then high parts of
// its columns, eight in a quad, then low ones.
// Grid: x = ceil(M H / HEADS), continued along z; an invocation has eight columns of a head.
// Reduction order: none that matters, a maximum.
// Assumes: HEAD_DIM is even and at most 256; columns of x, and the first, are multiples of UNIT, in which they are counted; the words
// of y < 2^34.
//# variants = [{ needs = ["float16"] }]
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "counts.glsl"
#include "stored.glsl"
#include "matrix/units.glsl"
#include "matrix/split.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint HEAD_DIM = 128;
// Numbers that are read at once.
layout(constant_id = 1) const uint UNIT = 4;
UNITS(1, readonly, x)
layout(std430, binding = 2) writeonly buffer Y { uvec4 y[]; };

layout(push_constant) uniform Push {
    // Heads of all rows.
    uint rows_of;
    uint rows;
    // Of a row.
    uint heads;
    // Units of a row, and the first of its heads.
    uint columns;
    uint first;
} push;

const uint EIGHTS = (HEAD_DIM + 7u) / 8u;
const uint HEADS = 256u / EIGHTS;
const uint QUAD_UNITS = 4u / UNIT;
#define WHOLE (HEAD_DIM == 8u * EIGHTS)
FOURS_OF(x, UNIT, WHOLE)

shared uint largest[HEADS];

void main() {
    uint own = gl_LocalInvocationIndex / EIGHTS;
    uint eighth = gl_LocalInvocationIndex % EIGHTS;
    uint place = group_x() * HEADS + own;
    bool there = own < HEADS && place < batch_rows(push.rows_of, push.rows);
    if (gl_LocalInvocationIndex < HEADS) {
        largest[gl_LocalInvocationIndex] = 0u;
    }
    barrier();
    vec4 numbers[2] = vec4[2](vec4(0.0), vec4(0.0));
    if (there) {
        uint head = push.first + place % push.heads * (HEAD_DIM / UNIT);
        uint at = place / push.heads * push.columns + head + 8u * eighth / UNIT;
        numbers[0] = four_of_x(at, 8u * eighth, HEAD_DIM);
        numbers[1] = four_of_x(at + QUAD_UNITS, 8u * eighth + 4u, HEAD_DIM);
        atomicMax(largest[own], largest_of(numbers));
    }
    barrier();
    if (!there) {
        return;
    }
    Fit fit = fit_of(largest[own]);
    if (is_plain(fit)) {
        numbers = vec4[2](vec4(0.0), vec4(0.0));
    }
    uint start = place * (1u + 2u * EIGHTS);
    if (eighth == 0u) {
        y[start] = uvec4(floatBitsToUint(unscale(fit)), 0u, 0u, 0u);
    }
    uint at = start + 1u + eighth;
    split(numbers, scale_of(fit), y[at], y[at + EIGHTS]);
}
