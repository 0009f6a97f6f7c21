// The tile of queries of one text that a workgroup on matrix cores has: text i owns the tiles from floor(q_offsets[i] / TILE)
// + i on; the last tiles of some texts are empty. PARTS neighbouring subgroups, one unless the shader defines more, have MATRIX_M rows,
// of which each computes a part of the columns. After cooperative-matrix.glsl.
#include "counts.glsl"
#include "numbers.glsl"

layout(local_size_x_id = 3) in;
layout(constant_id = 0) const uint HEAD_DIM = 64;
layout(constant_id = 1) const uint KEYS = 32;
layout(constant_id = 2) const uint SUBGROUPS = 4;
layout(constant_id = 3) const uint INVOCATIONS = 128;
layout(constant_id = 4) const bool CAUSAL = false;
layout(constant_id = 5) const bool WINDOW = false;
layout(constant_id = 6) const bool BIAS = false;
layout(constant_id = 7) const float SOFT_CAP = 0.0;
#ifndef PARTS
#define PARTS 1u
#endif
const bool HIDES = CAUSAL || WINDOW;
const uint TILE = MATRIX_M * (SUBGROUPS / PARTS);
#ifndef LANES
const uint LANES = INVOCATIONS / SUBGROUPS;
#endif
#include "attention/attention-push.glsl"
#include "attention/attention-sight.glsl"

// Columns of matrices per part of a head, and per block of keys; a sum has as many columns as a left operand.
const uint SLICES = (HEAD_DIM + MATRIX_N * PARTS - 1u) / (MATRIX_N * PARTS);
const uint WIDE = KEYS / MATRIX_N;
const float LOG2_E = 1.44269504;
// The block's scores for the subgroup's rows, and the rows' results.
SUM score[WIDE];
SUM result[SLICES];

// The tile's text, its queries from the first to before the last of the text, and the text's keys.
uint text, text_first, first, last, key_first, key_count;
// Of the subgroup: its first row of the tile, its first column, the position of that row, and whether it has rows of the text.
uint own_row;
uint own_column;
int own_place;
bool busy;
// What any and all queries of the tile see, and of the subgroup.
Sight some, each, own_some, own_each;

// Whether the tile is empty.
bool set_tile() {
    LAST_TEXT(low, counts.texts, q_offsets[middle] / TILE + middle <= group_x())
    text = low;
    text_first = q_offsets[low];
    first = text_first + (group_x() - (text_first / TILE + low)) * TILE;
    last = q_offsets[low + 1u];
    if (first >= last) {
        return true;
    }
    key_first = kv_offsets[low / push.shared_by];
    key_count = kv_offsets[low / push.shared_by + 1u] - key_first;
    own_row = MATRIX_M * (gl_SubgroupID / PARTS);
    own_column = MATRIX_N * SLICES * (gl_SubgroupID % PARTS);
    busy = first + own_row < last;
    int first_place = place_of(first - text_first, last - text_first, key_count);
    int last_place = first_place + int(min(TILE, last - first)) - 1;
    own_place = first_place + int(own_row);
    some = sight_of_any(first_place, last_place, int(key_count));
    each = sight_of_all(first_place, last_place, int(key_count));
    own_some = sight_of_any(own_place, min(own_place + int(MATRIX_M) - 1, last_place), int(key_count));
    own_each = sight_of_all(own_place, min(own_place + int(MATRIX_M) - 1, last_place), int(key_count));
    return false;
}

// The row of the biases of a head, at distance 0.
uint bias_row(uint head) {
    return (text * gl_NumWorkGroups.y + head) % push.bias_rows * (2u * push.reach + 1u) + push.reach;
}
