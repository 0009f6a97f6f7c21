// Part of a main function: sets this workgroup's tile of TILE_M rows and OUT_N columns, `first_row`, `first_column` and `rows`, the
// end of the rows. Eight row tiles iterate over all columns together; with EXPERTS each expert has tiles of its own.
rows = batch_rows(push.rows_of, push.rows);
#ifdef EXPERTS
uint row_tiles = tiles_of(push.first_expert, push.experts, rows, TILE_M);
#else
uint row_tiles = (rows + TILE_M - 1u) / TILE_M;
#endif
uint first_tile = group_y() * 8u;
uint height = min(8u, row_tiles - min(first_tile, row_tiles));
// The last group may have fewer tiles.
if (gl_WorkGroupID.x >= height * ((push.n + OUT_N - 1u) / OUT_N)) {
    return;
}
first_row = (first_tile + gl_WorkGroupID.x % height) * TILE_M;
first_column = gl_WorkGroupID.x / height * OUT_N;
#ifdef EXPERTS
uvec2 own = set_rows(first_row / TILE_M, push.first_expert, push.experts, rows, TILE_M);
first_row = own.x;
rows = own.y;
#endif
