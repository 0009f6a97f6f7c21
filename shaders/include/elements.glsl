// The loop of the elementwise shaders: a workgroup's elements four at a time, then the remainder of the tensor.
#include "counts.glsl"

layout(local_size_x = 256) in;

// The first members of the push block. Rows per workgroup times columns are a multiple of four.
#define ELEMENT_MEMBERS                                                                                                \
    ROW_MEMBERS                                                                                                        \
    uint rows_per_group;

// After stored.glsl, if the shader takes it. The shader's work on elements 4 quad .. 4 quad + 3, and on one element.
void four(uint quad);
void one(uint place);

// The first element of this workgroup and the end of its range.
uvec2 own_elements(uint rows_of, uint rows, uint columns, uint rows_per_group) {
    uint first = gl_WorkGroupID.x * rows_per_group;
    uint last = min(first + rows_per_group, batch_rows(rows_of, rows));
    return uvec2(first, max(first, last)) * columns;
}

void walk(uvec2 own) {
    for (uint quad = own.x / 4u + gl_LocalInvocationIndex; quad < own.y / 4u; quad += 256u) {
        four(quad);
    }
    // Tensors in 16 bits have no remaining elements.
#if !defined(STORED) || STORED == FLOAT32
    uint rest = (own.y & ~3u) + gl_LocalInvocationIndex;
    if (rest < own.y) {
        one(rest);
    }
#endif
}
