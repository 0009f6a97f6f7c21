// Binding 0 where the batch counts rows: its sizes, so that one recording serves every batch.
layout(std430, binding = 0) readonly buffer Counts {
    uint tokens;
    uint texts;
    uint others[6];
} counts;

// This workgroup's number along x or y, where more than 65,535 continue along z: that axis then has 65,535, of which the last
// row of workgroups along z may have too many.
uint group_x() {
    return gl_WorkGroupID.z * 65535u + gl_WorkGroupID.x;
}

uint group_y() {
    return gl_WorkGroupID.z * 65535u + gl_WorkGroupID.y;
}

// The first members of the push block of a shader over rows: the arguments of `batch_rows`, and columns.
#define ROW_MEMBERS                                                                                                    \
    uint rows_of;                                                                                                      \
    uint rows;                                                                                                         \
    uint columns;

// The push block of a shader with no other members.
#define ROW_PUSH                                                                                                       \
    layout(push_constant) uniform Push {                                                                               \
        ROW_MEMBERS                                                                                                    \
    } push;

// Rows of a tensor in this batch: `rows` if `rows_of` is 0; else so many for each token with 1, text with 2, of texts + 1
// with 3, and of `others[n]` with 4 + n.
uint batch_rows(uint rows_of, uint rows) {
    switch (rows_of) {
        case 1u: return counts.tokens * rows;
        case 2u: return counts.texts * rows;
        case 3u: return (counts.texts + 1u) * rows;
        case 0u: return rows;
        default: return counts.others[rows_of - 4u] * rows;
    }
}
