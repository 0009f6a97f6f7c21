#version 460
// Computes: the heads of rows x [M, columns] as integers of 24 bits with an exponent, for products on matrix cores: integers [M, H,
// 16 + 3 HEAD_DIM] bytes, the exponent, which with VALUES is NOTHING of a head without numbers but 0, and from byte 16 on three
// signed digits to the base 256, the lowest of all first: `src/quant/everywhere.rs`.
// Grid: x = ceil(M H / (1024 / HEAD_DIM)), continued along z; an invocation has four columns of a head.
// Reduction order: none that matters, a maximum.
// Assumes: HEAD_DIM is a multiple of 32 up to 256, the rows' columns and the first of them are multiples of four; the words of
// integers < 2^32.
//# numerics = ["everywhere"]
#include "counts.glsl"
#include "arithmetic.glsl"
#include "everywhere/exact-integers.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint HEAD_DIM = 64;
layout(constant_id = 1) const bool VALUES = false;

layout(std430, binding = 1) readonly buffer X { vec4 x[]; };
layout(std430, binding = 2) writeonly buffer Integers { uint integers[]; };

layout(push_constant) uniform Push {
    // Heads of all rows.
    uint rows_of;
    uint rows;
    // Of a row.
    uint heads;
    // Columns of a row, and the first of the heads.
    uint columns;
    uint first;
} push;

// Invocations of a head, heads of a workgroup.
const uint QUADS = HEAD_DIM / 4u;
const uint HEADS = 256u / QUADS;

shared int most[HEADS];
shared uint largest[HEADS];

void main() {
    uint own = gl_LocalInvocationIndex / QUADS;
    uint quad = gl_LocalInvocationIndex % QUADS;
    uint place = group_x() * HEADS + own;
    bool there = own < HEADS && place < batch_rows(push.rows_of, push.rows);
    if (gl_LocalInvocationIndex < HEADS) {
        most[gl_LocalInvocationIndex] = NOTHING;
        largest[gl_LocalInvocationIndex] = 0u;
    }
    barrier();
    vec4 numbers = vec4(0.0);
    if (there) {
        numbers = x[(place / push.heads * push.columns + push.first) / 4u + place % push.heads * QUADS + quad];
        int own_most = NOTHING;
        uint own_largest = 0u;
        for (uint i = 0u; i < 4u; i++) {
            own_most = max(own_most, measure(numbers[i], 0));
            own_largest = max(own_largest, floatBitsToUint(numbers[i]) & 0x7fffffffu);
        }
        atomicMax(most[own], own_most);
        atomicMax(largest[own], own_largest);
    }
    barrier();
    if (!there) {
        return;
    }
    int exponent = row_exponent(most[own], largest[own]);
    uint start = place * (4u + 3u * QUADS);
    if (quad == 0u) {
        bool none = VALUES && most[own] == NOTHING && exponent != NOT_FINITE;
        integers[start] = uint(none ? NOTHING : exponent);
    }
    ivec4 q;
    for (uint i = 0u; i < 4u; i++) {
        q[i] = exponent == NOT_FINITE ? 0 : scaled_integer(numbers[i], 22 - exponent);
    }
    uvec3 found = digits_of(q);
    for (uint d = 0u; d < 3u; d++) {
        integers[start + 4u + d * QUADS + quad] = found[d];
    }
}
