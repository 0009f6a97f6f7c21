// The walk of the elementwise shaders: a workgroup's elements four at a time, then what is left of the tensor.
#include "counts.glsl"

layout(local_size_x = 256) in;

// What a shader does with elements 4 quad .. 4 quad + 3, and with one element.
void four(uint quad);
void one(uint place);

// First and past the last element of this workgroup. Rows a workgroup times columns are a multiple of four.
uvec2 own_elements(uint rows_of, uint rows, uint columns, uint rows_per_group) {
    uint first = gl_WorkGroupID.x * rows_per_group;
    uint last = min(first + rows_per_group, batch_rows(rows_of, rows));
    return uvec2(first, max(first, last)) * columns;
}

void walk(uvec2 own) {
    for (uint quad = own.x / 4u + gl_LocalInvocationIndex; quad < own.y / 4u; quad += 256u) {
        four(quad);
    }
    uint rest = (own.y & ~3u) + gl_LocalInvocationIndex;
    if (rest < own.y) {
        one(rest);
    }
}
