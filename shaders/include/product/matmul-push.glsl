// Parameters of the builds of `matmul`.

// How a tile is read. 0: neighbouring invocations along k; 1: the same, four elements at once (in 16 bits eight), which
// start at multiples of as many; 2: neighbouring invocations along m or n (in 16 bits eight elements at once).
layout(constant_id = 3) const uint A_LOAD = 0;
layout(constant_id = 4) const uint B_LOAD = 0;

layout(push_constant) uniform Push {
    uint m;
    uint n;
    uint k;
    uint batches;
    // Batch i is batch i % inner of outer batch i / inner.
    uint inner;
    // Inner batches that share one matrix of b.
    uint group;
    // Strides between rows (columns, terms, batches), in elements.
    uint a_row;
    uint a_k;
    uint a_outer;
    uint a_inner;
    uint b_column;
    uint b_k;
    uint b_outer;
    uint b_inner;
    uint y_row;
    uint y_outer;
    uint y_inner;
    float scale;
} push;

// The first elements of a batch's matrices.
uint a_base, b_base, y_base;
// The first row and column of this workgroup's tile.
uint first_row, first_column;

void set_batch(uint batch) {
    uint outer = batch / push.inner;
    uint inner = batch % push.inner;
    a_base = outer * push.a_outer + inner * push.a_inner;
    b_base = outer * push.b_outer + inner / push.group * push.b_inner;
    y_base = outer * push.y_outer + inner * push.y_inner;
}

// Tiles for so many rows or columns that the same workgroup runs one after another: more than one where there are fewer
// workgroups than tiles.
uint turns(uint count, uint tile, uint groups) {
    return (count + tile * groups - 1u) / (tile * groups);
}

// All tiles of this workgroup.
uint all_turns(uint tile_m, uint tile_n) {
    return push.batches * turns(push.m, tile_m, gl_NumWorkGroups.y) * turns(push.n, tile_n, gl_NumWorkGroups.x);
}

// Sets the tile of a turn, and its batch.
void set_turn(uint turn, uint tile_m, uint tile_n) {
    uint tile = turn / push.batches;
    uint down = turns(push.m, tile_m, gl_NumWorkGroups.y);
    first_row = (tile % down * gl_NumWorkGroups.y + gl_WorkGroupID.y) * tile_m;
    first_column = (tile / down * gl_NumWorkGroups.x + gl_WorkGroupID.x) * tile_n;
    set_batch(turn % push.batches);
}
