// Scores by distance: q[i, h] . a[r, g] + k[j, g] . b[r, g] is added to q[i, h] . k[j, g], r the row of the distance of key
// j from query i, of -reach or reach for those beyond. In place of biases.
INPUT_HEADS(6, distances)

// First columns of a and b; none for the largest integer.
layout(constant_id = 9) const uint A_COLUMN = 0;
layout(constant_id = 10) const uint B_COLUMN = 0;
layout(constant_id = 11) const uint DISTANCE_COLUMNS = 64;
const bool BY_QUERY = A_COLUMN != 0xffffffffu;
const bool BY_KEY = B_COLUMN != 0xffffffffu;

// Adds the terms of 32 columns, from column 32 chunk on, of rows ty + i and keys 4 tx + j, which stage_queries and
// stage_keys loaded; the first key is `distance` after the first row.
void add_distances(inout vec4 score[ROWS], int distance, uint chunk) {
    const uint APART = ROWS + 3u;
    uint head = gl_WorkGroupID.y / push.group * HEAD_DIM;
    // Unrolled, AMD's compiler spills registers.
    [[dont_unroll]] for (uint c = 0u; c < 8u; c++) {
        uint column = 32u * chunk + 4u * c;
        vec4 query[ROWS];
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            query[i] = stage[(ty + i) * CHUNK_STRIDE + c];
        }
        vec4 key[4];
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            key[j] = stage[(BLOCK_Q + QUADS * j + tx) * CHUNK_STRIDE + c];
        }
        // Key j of row i is at the distance with index d = j - i + ROWS - 1.
        [[unroll]] for (uint d = 0u; d < APART; d++) {
            int far = clamp(distance + int(d) - int(ROWS - 1u), -int(push.reach), int(push.reach));
            uint at = uint(far + int(push.reach)) * DISTANCE_COLUMNS + head + column;
            vec4 a = BY_QUERY ? load_distances(true, at + A_COLUMN, column) : vec4(0.0);
            vec4 b = BY_KEY ? load_distances(true, at + B_COLUMN, column) : vec4(0.0);
            [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                uint j = d + i - (ROWS - 1u);
                if (j < 4u) {
                    if (BY_QUERY) {
                        score[i][j] = accumulate(query[i], a, score[i][j]);
                    }
                    if (BY_KEY) {
                        score[i][j] = accumulate(key[j], b, score[i][j]);
                    }
                }
            }
        }
    }
}
