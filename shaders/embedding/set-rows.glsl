#version 460
// Computes: table[index[i]] = x[i], row by row, in place; table [places, columns], x [rows, columns].
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows of x.
// Reduction order: none.
// Assumes: elements < 2^32; rows_per_group * columns is a multiple of 4; indices are distinct. Rows outside the table
// are not written.
//# numerics = ["run", "everywhere"]
#include "elements.glsl"

// A device may lack subnormal floats.
#ifdef EVERYWHERE
#define NUMBER uint
#else
#define NUMBER float
#endif
layout(std430, binding = 1) buffer Table { NUMBER table[]; };
layout(std430, binding = 2) readonly buffer X { NUMBER x[]; };
layout(std430, binding = 3) readonly buffer Index { uint index[]; };

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
    uint width;
    uint places;
} push;

void one(uint place) {
    uint to = index[place / push.width];
    if (to < push.places) {
        table[to * push.width + place % push.width] = x[place];
    }
}

#define SINGLY
#include "elements-main.glsl"
