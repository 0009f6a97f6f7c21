// Binding 0 where the batch counts rows: its sizes, so that one recording serves every batch.
layout(std430, binding = 0) readonly buffer Counts {
    uint tokens;
    uint texts;
    uint others[6];
} counts;

// The first members of the push block of a shader over rows: the arguments of `batch_rows`, and columns.
#define ROW_MEMBERS                                                                                                    \
    uint rows_of;                                                                                                      \
    uint rows;                                                                                                         \
    uint columns;

// Rows of a tensor in this batch: `rows_of` is 0 for `fixed_rows`, 1 for tokens, 2 for texts, 3 for texts + 1, and 4 + n
// for `others[n]`.
uint batch_rows(uint rows_of, uint fixed_rows) {
    switch (rows_of) {
        case 1u: return counts.tokens;
        case 2u: return counts.texts;
        case 3u: return counts.texts + 1u;
        case 0u: return fixed_rows;
        default: return counts.others[rows_of - 4u];
    }
}
