// Binding 0 of every shader: the sizes of the current batch, so that one recording serves every batch.
layout(std430, binding = 0) readonly buffer Counts {
    uint tokens;
    uint texts;
} counts;

// The first members of the push block of a shader over rows: the arguments of `batch_rows`, and columns.
#define ROW_MEMBERS                                                                                                    \
    uint rows_of;                                                                                                      \
    uint rows;                                                                                                         \
    uint columns;

// Rows of a tensor in this batch: `rows_of` is 0 for `fixed_rows`, 1 for tokens, 2 for texts, 3 for texts + 1.
uint batch_rows(uint rows_of, uint fixed_rows) {
    switch (rows_of) {
        case 1u: return counts.tokens;
        case 2u: return counts.texts;
        case 3u: return counts.texts + 1u;
        default: return fixed_rows;
    }
}
