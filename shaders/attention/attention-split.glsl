#version 460
// Computes: as attention.glsl in float32, on matrix cores, each number split in two (split.glsl): rows of q and k by their
// largest element; a row of v by its own, whose factor the weights take, and these by the largest of a row in a block.
// Rows that see a key, a value or a query with NaN, infinity or numbers outside the range of split.glsl are computed alone,
// by plain sums.
// With PREPARED, for wide heads, keys and values are split by split-heads before.
// Grid: x = floor(T / TILE) + B tiles of TILE = MATRIX_M SUBGROUPS / PARTS queries of one text, continued along z; y = heads. PARTS
// subgroups have MATRIX_M rows.
// Reduction order: keys in blocks of KEYS from the text's first; within a block, and within two matrices' columns of a score, the order
// of the device's matrix cores, products of high and low parts first; terms of a score by parts of the columns. A block without visible keys for a row changes none of
// its bits.
// Assumes: offsets [B + 1] increase to the rows of q and k; HEAD_DIM is even, it, strides and columns are multiples of UNIT, in which
// the latter two are counted; MATRIX_N = MATRIX_K, of which the columns past HEAD_DIM are zeros, with the matrix layout that matrix-layout.glsl finds; KEYS a multiple of MATRIX_N.
//# # float32 on matrix cores; where there are none, or for narrow and wide heads, `attention` runs.
//# # k is head_dim; wider heads are not faster than plain ones, unless they are prepared.
//# made_of = { constants = "Blocks" }
//# [[variants]]
//# # Of numbers NVIDIA's driver makes faster code than of constants.
//# name = "rows-in-quads"
//# needs = ["matrix_rows_in_quads", "matrix_rows_in_lanes", "coopmat_f16_f32_16x16x16", "float16", "subgroup_shuffle", "subgroup_arithmetic", "subgroup_vote"]
//# when = ["subgroup_size >= 32", "subgroup_size <= 32", "k % 2", "k >= 8", "k <= 256"]
//# defines = { MATRIX_M = "16u", MATRIX_N = "16u", MATRIX_K = "16u", LANES = "32u", ROW_LANES = "4u", RUN = "2u" }
//#
//# [[variants]]
//# matrices = "f16_f32"
//# needs = ["matrix_rows_in_lanes", "float16", "subgroup_shuffle", "subgroup_arithmetic", "subgroup_vote"]
//# when = ["k % 2", "k >= 8", "k <= 256"]
//#
//# [builds]
//# attention-split-prepared = { define = "PREPARED" }
#include "stored.glsl"
#include "matrix/cooperative-matrix.glsl"
#include "matrix/units.glsl"

// Subgroups that share rows: the queries and results of wide heads do not fit the registers of one.
layout(constant_id = 12) const uint SHARING = 1;
#define PARTS SHARING
#include "attention/attention-tile.glsl"
#include "attention-matrix.parts.glsl"

// Numbers that are read at once.
layout(constant_id = 8) const uint UNIT = 4;
UNITS(1, readonly, q)
UNITS(2, readonly, k)
UNITS(3, readonly, v)
layout(std430, binding = 7) writeonly buffer Y { vec2 y[]; };

#include "attention-split.blocks.glsl"
#include "attention-split.rows.glsl"

// Marks rows that see a key or a value of the block which cannot be split: their sums must be plain.
void mark(uint at) {
    for (uint key = 0u; key < min(KEYS, key_count - at); key++) {
        if (is_nan(key_factors[key]) || is_nan(value_factors[key])) {
            [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
                alone[h] = alone[h] || !HIDES || sees(mine[h], int(at + key));
            }
        }
    }
}

// Pairs of the result before those of a row's head.
uint pairs_before(uint row) {
    return (row * push.y_stride + head * HEAD_UNITS) * UNIT / 2u;
}

// The score of a key for a row of the subgroup.
float plain_score(uint row, uint key) {
    uint q_at = (first + own_row + row) * push.q_stride + q_column;
    uint k_at = (key_first + key) * push.k_stride + k_column;
    float sum = 0.0;
    for (uint column = 0u; column < HEAD_DIM; column += 4u) {
        vec4 query = four_of_q(q_at + column / UNIT, column, HEAD_DIM);
        vec4 other = four_of_k(k_at + column / UNIT, column, HEAD_DIM);
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            sum = fma(query[j], other[j], sum);
        }
    }
    return changed(sum, key, row);
}

// One row by plain sums: scores of a key a lane, then values in order, pairs of columns a lane.
void compute_alone(uint row) {
    uint lane = gl_SubgroupInvocationID;
    Sight sight = sight_of(own_place + int(row), int(key_count));
    float most = NONE;
    for (uint key = lane; key < key_count; key += LANES) {
        if (!HIDES || sees(sight, int(key))) {
            most = nan_max(most, plain_score(row, key));
        }
    }
    [[unroll]] for (uint reach = 1u; reach < LANES; reach *= 2u) {
        most = nan_max(most, subgroupShuffleXor(most, reach));
    }
    float sum = 0.0;
    vec2 values[LANE_PAIRS];
    [[unroll]] for (uint c = 0u; c < LANE_PAIRS; c++) {
        values[c] = vec2(0.0);
    }
    for (uint at = 0u; at < key_count; at += LANES) {
        uint key = at + lane;
        bool seen = key < key_count && (!HIDES || sees(sight, int(key)));
        float weight = seen ? exponential(plain_score(row, key) - most) : -1.0;
        // Rare: unrolled, it makes the whole code a fifth longer.
        [[dont_unroll]] for (uint i = 0u; i < LANES; i++) {
            float own = subgroupShuffle(weight, i);
            // Marks a hidden key.
            if (own == -1.0) {
                continue;
            }
            sum += own;
            [[unroll]] for (uint c = 0u; c < LANE_PAIRS; c++) {
                uint pair = min(lane + LANES * c, HEAD_DIM / 2u - 1u);
                uint column = pair / 2u * 4u;
                uint v_at = (key_first + at + i) * push.v_stride + v_column + column / UNIT;
                vec4 four = four_of_v(v_at, column, HEAD_DIM);
                values[c] = fma(vec2(own), pair % 2u == 0u ? four.xy : four.zw, values[c]);
            }
        }
    }
    [[unroll]] for (uint c = 0u; c < LANE_PAIRS; c++) {
        if (lane + LANES * c < HEAD_DIM / 2u) {
            y[pairs_before(first + own_row + row) + lane + LANES * c] = sum == 0.0 ? vec2(0.0) : values[c] / sum;
        }
    }
}

// The first block from `at` on that some query of the tile sees.
uint next_block(uint at) {
    return WINDOW && int(at) >= some.leading ? max(at, uint(some.begin) / KEYS * KEYS) : at;
}

void main() {
    if (set_tile()) {
        return;
    }
    head = gl_WorkGroupID.y;
    q_column = push.q_column + head * HEAD_UNITS;
    k_column = push.k_column + head / push.group * HEAD_UNITS;
    v_column = push.v_column + head / push.group * HEAD_UNITS;
    load_queries();
    if (gl_LocalInvocationIndex == 0u) {
        tainted = 0u;
    }
    barrier();
    uint own_eighth = own_column / 8u;
    LEFT high[SLICES];
    LEFT low[SLICES];
    [[unroll]] for (uint i = 0u; i < SLICES; i++) {
        uint slot = own_row * STRIDE + own_eighth + TERM_QUADS * i;
        coopMatLoad(high[i], tile, slot, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(low[i], tile, LOW_QUERIES + slot, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        result[i] = SUM(0.0);
    }
    [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
        largest[h] = NONE;
        total[h] = 0.0;
        mine[h] = sight_of(own_place + int(row_of(h)), int(key_count));
        alone[h] = is_nan(query_factors[own_row + row_of(h)]);
    }
    uint limit = uint(end_of(some));
    uint at = next_block(0u);
    if (AHEAD && at < limit) {
        fetch(at);
    }
    while (at < limit) {
        int keys = int(min(KEYS, key_count - at));
        uint next = next_block(at + KEYS);
        barrier();
        if (!AHEAD) {
            fetch(at);
        }
        store(at);
        barrier();
        if (AHEAD) {
            fetch(next);
        }
        uint own = at;
        at = next;
        bool idle = !busy || (HIDES && !sees_some(own_some, int(own), keys));
        if (PARTS == 1u && idle) {
            continue;
        }
        [[unroll]] for (uint n = 0u; n < WIDE; n++) {
            score[n] = SUM(0.0);
            [[unroll]] for (uint pair = 0u; pair < PAIRS; pair++) {
                SUM part = SUM(0.0);
                RIGHT key[2];
                [[unroll]] for (uint i = 2u * pair; i < min(2u * pair + 2u, SLICES); i++) {
                    RIGHT small;
                    uint slot = MATRIX_N * n * STRIDE + own_eighth + TERM_QUADS * i;
                    coopMatLoad(key[i % 2u], tile, slot, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
                    coopMatLoad(small, tile, slot + LOW, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
                    part = coopMatMulAdd(high[i], small, part);
                    part = coopMatMulAdd(low[i], key[i % 2u], part);
                }
                part = part * LOW_UNIT;
                [[unroll]] for (uint i = 2u * pair; i < min(2u * pair + 2u, SLICES); i++) {
                    part = coopMatMulAdd(high[i], key[i % 2u], part);
                }
                score[n] = score[n] + part;
            }
        }
        if (PARTS > 1u) {
            JOIN_PARTS(tile)
        }
        if (PARTS > 1u && idle) {
            continue;
        }
        soften(own, HIDES && !sees_each(own_each, int(own), keys));
        add_values();
        if (tainted == own + 1u) {
            mark(own);
        }
    }
    if (!busy) {
        return;
    }
    [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
        OVER_ROW(PLUS, total[h])
        uint row = first + own_row + row_of(h);
        if (row < last && !alone[h]) {
            [[unroll]] for (uint i = 0u; i < SLICES; i++) {
                [[unroll]] for (uint e = ROW_ELEMENTS * h; e < ROW_ELEMENTS * h + ROW_ELEMENTS; e += PAIR) {
                    vec2 pair = PAIR_OF(result[i], e);
                    uint column = own_column + MATRIX_N * i + column_of(e);
                    if (has_pair() && (WHOLE || column < HEAD_DIM)) {
                        // The weights of a row without keys have a sum of zero.
                        y[pairs_before(row) + column / 2u] = total[h] == 0.0 ? vec2(0.0) : pair / total[h];
                    }
                }
            }
        }
    }
    bool plain = false;
    [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
        plain = plain || alone[h];
    }
    if (own_column == 0u && subgroupAny(plain)) {
        for (uint row = 0u; row < MATRIX_M; row++) {
            bool own = false;
            [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
                own = row / APART == h ? alone[h] : own;
            }
            if (subgroupShuffle(own ? 1u : 0u, row % APART * ROW_LANES) == 1u && first + own_row + row < last) {
                compute_alone(row);
            }
        }
    }
}
