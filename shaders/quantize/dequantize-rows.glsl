#version 460
// Computes: y[m, k] = (x[m, k] - zero) / scale; x [rows, row_bytes] bytes of integers, y [rows, width].
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: none.
// Assumes: elements < 2^32; rows_per_group * columns is a multiple of 4.
//# numerics = ["run", "everywhere"]
#include "elements.glsl"
#include "arithmetic.glsl"
#include "levels.glsl"

layout(constant_id = 0) const uint LEVELS = INT8;
layout(constant_id = 1) const bool AFFINE = false;

layout(std430, binding = 1) readonly buffer X { uint x[]; };
layout(std430, binding = 2) readonly buffer Scale { float scale[]; };
layout(std430, binding = 3) readonly buffer Zero { int zero[]; };
layout(std430, binding = 4) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
    uint width;
    uint row_bytes;
    // Columns of a group, and scales of a row, 0 if rows share one.
    uint group;
    uint per_row;
} push;

void one(uint place) {
    uint row = place / push.width, column = place % push.width;
    uint at = row * push.row_bytes + column / per_byte(LEVELS);
    int level = LEVELS == INT8 ? integer_at(x[at / 4u], at) : level_in(LEVELS, byte_of(x[at / 4u], at), column);
    uint group = row * push.per_row + column / push.group;
    y[place] = CANONICAL(QUOTIENT(float(level - (AFFINE ? zero[group] : 0)), NORMAL(scale[group])));
}

#define SINGLY
#include "elements-main.glsl"
