// The rows of a product: row i of the result is that of row i of x. With EXPERTS it is row order[i] of the result, of row
// order[i] / shared_by of x, and rows starts[e] .. starts[e + 1] are multiplied by the matrix of expert e, in tiles of
// their own. ORDER is the binding of order.
#ifdef EXPERTS
layout(std430, binding = ORDER) readonly buffer Order { uint order[]; };
layout(std430, binding = ORDER + 1) readonly buffer Starts { uint starts[]; };

// The last members of the push block: the bound experts, and the rows of the result that have one row of x.
#define EXPERT_MEMBERS                                                                                                 \
    uint first_expert;                                                                                                 \
    uint experts;                                                                                                      \
    uint shared_by;

// This workgroup's expert among those that are bound, and the end of its rows.
uint expert, end_own;

// First and end of an expert's rows, and how many tiles they have.
uvec3 rows_of_expert(uint index, uint rows, uint height) {
    uint first = min(starts[index], rows);
    uint end = max(first, min(starts[index + 1u], rows));
    return uvec3(first, end, (end - first + height - 1u) / height);
}

// All tiles of the bound experts.
uint tiles_of(uint first_expert, uint experts, uint rows, uint height) {
    uint tiles = 0u;
    for (uint i = 0u; i < experts; i++) {
        tiles += rows_of_expert(first_expert + i, rows, height).z;
    }
    return tiles;
}

// Sets this workgroup's expert and returns its rows, from the first to before the end of its expert's; none past the last tile.
// All loads are independent of what they find.
uvec2 set_rows(uint tile, uint first_expert, uint experts, uint rows, uint height) {
    expert = 0u;
    uvec2 found = uvec2(0u);
    uint before = 0u;
    for (uint i = 0u; i < experts; i++) {
        uvec3 own = rows_of_expert(first_expert + i, rows, height);
        if (tile >= before && tile - before < own.z) {
            expert = i;
            found = uvec2(own.x + (tile - before) * height, own.y);
        }
        before += own.z;
    }
    end_own = found.y;
    return found;
}

// The place of a row in the result; past an expert's last row, that row's.
uint place_of(uint row, uint rows) {
    return min(order[min(row, end_own - 1u)], rows - 1u);
}

#define Y_ROW(row) place_of(row, batch_rows(push.rows_of, push.rows))
#define X_ROW(row) (Y_ROW(row) / push.shared_by)
// Begins a main function whose workgroups along y have HEIGHT rows each: the first, and the end of the rows.
#define OWN_ROWS(HEIGHT)                                                                                               \
    uint rows = batch_rows(push.rows_of, push.rows);                                                                   \
    uvec2 own = set_rows(group_y(), push.first_expert, push.experts, rows, HEIGHT);                             \
    if (own.x == own.y) {                                                                                              \
        return;                                                                                                        \
    }                                                                                                                  \
    uint first_row = own.x;                                                                                            \
    rows = own.y;
// All that X_ROW gives are there.
#define X_ROWS 0xffffffffu
#define WEIGHT_ROW(row) (expert * push.n + (row))
#define BIAS_AT(column) ((push.first_expert + expert) * push.n + (column))
#else
#define OWN_ROWS(HEIGHT)                                                                                               \
    uint rows = batch_rows(push.rows_of, push.rows);                                                                   \
    uint first_row = group_y() * HEIGHT;
#define Y_ROW(row) (row)
#define X_ROW(row) (row)
#define X_ROWS rows
#define WEIGHT_ROW(row) (row)
#define BIAS_AT(column) (column)
#endif
