#version 460
// Computes: as attention-backward.glsl on matrix cores: operands and results float16 or bfloat16, sums float32; weights, and the
// gradients of scores, are rounded to the operands' type. With KEYS dk and dv.
// Grid: x = ceil(rows / 64) tiles of packed queries, or keys, which may include several texts, continued along z; y = heads, or
// those of keys. A subgroup has MATRIX_M rows.
// Reduction order: heads that share a key in order; for each, blocks of 32 others from the text's first; within a block, the
// order of the device's matrix cores. Others that a row does not see change none of its bits.
// Assumes: the places and d in scratch memory, for KEYS log sums as well, to base 2; HEAD_DIM, strides and
// columns multiples of 8; MATRIX_N = MATRIX_K, of which the columns past HEAD_DIM are zeros, with the matrix layout that
// matrix-layout.glsl finds.
//# # 16 bits on matrix cores; where there are none, or for other masks, `attention-backward` runs.
//# stored = ["float16", "bfloat16"]
//# made_of = { push = "Backward", constants = "Blocks" }
//# variants = [
//#     { only = ["float16"], matrices = "f16_f32", needs = ["matrix_rows_in_lanes", "float16", "subgroup_shuffle", "subgroup_vote"], when = ["k % 8", "k <= 128"] },
//#     { only = ["bfloat16"], matrices = "bf16_f32", needs = ["matrix_rows_in_lanes", "float16", "subgroup_shuffle", "subgroup_vote"], when = ["k % 8", "k <= 128"] },
//# ]
//#
//# [builds]
//# attention-backward-matrix-keys = { define = "KEYS" }
#include "stored.glsl"
#include "matrix/cooperative-matrix.glsl"
#include "attention/attention-halves.glsl"
#include "attention/attention-backward-places.glsl"

layout(local_size_x_id = 3) in;
layout(constant_id = 0) const uint HEAD_DIM = 64;
layout(constant_id = 1) const bool CAUSAL = false;
layout(constant_id = 2) const uint SUBGROUPS = 4;
layout(constant_id = 3) const uint INVOCATIONS = 128;
const uint LANES = INVOCATIONS / SUBGROUPS;
#include "attention-backward-matrix.interface.glsl"
#include "attention-backward-matrix.blocks.glsl"

#ifdef KEYS
// Adds to dk and dv what the tile's keys from `row` to before `to` get from the queries of their text.
void add_text(Place text, uint row, uint to) {
    uint count = text.others_end - text.others_begin;
    for (uint at = CAUSAL ? (row - text.begin) / OTHERS * OTHERS : 0u; at < count; at += OTHERS) {
        uint others = min(OTHERS, count - at);
        barrier();
        load(text.others_begin + at, others);
        barrier();
        if (first + own_row >= to || first + own_row + MATRIX_M <= row) {
            continue;
        }
        multiply();
        LEFT weight[WIDE];
        LEFT slope[WIDE];
        [[unroll]] for (uint n = 0u; n < WIDE; n++) {
            [[unroll]] for (uint e = 0u; e < ELEMENTS; e++) {
                uint key = first + own_row + row_of(e / ROW_ELEMENTS);
                uint other = MATRIX_N * n + column_of(e);
                bool seen = key >= row && key < to && other < others && (!CAUSAL || at + other >= key - text.begin);
                float own = exp2(fma(score[n][e], unit, -log_sums[other])) + fault_of(other);
                weight[n][e] = ELEMENT(seen ? own : 0.0);
                slope[n][e] = ELEMENT(seen ? own * (change[n][e] - ds[other]) : 0.0);
            }
        }
        [[unroll]] for (uint n = 0u; n < WIDE; n++) {
            [[unroll]] for (uint i = 0u; i < SLICES; i++) {
                RIGHT value;
                coopMatLoad(value, tile, MATRIX_N * n * STRIDE + TERM_QUADS * i, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                first_result[i] = coopMatMulAdd(slope[n], value, first_result[i]);
                coopMatLoad(value, tile, SECOND + MATRIX_N * n * STRIDE + TERM_QUADS * i, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                second_result[i] = coopMatMulAdd(weight[n], value, second_result[i]);
            }
        }
    }
}
#else
// Of the lane's rows: d.
float d[LANE_ROWS];

// The same for dq, times the sum of a query's weights, over the keys of the text.
void add_text(Place text, uint row, uint to) {
    uint count = text.others_end - text.others_begin;
    uint end = CAUSAL ? min(count, to - text.begin) : count;
    for (uint at = 0u; at < end; at += OTHERS) {
        uint others = min(OTHERS, count - at);
        barrier();
        load(text.others_begin + at, others);
        barrier();
        uint own_end = min(first + own_row + MATRIX_M, to);
        if (own_end <= max(row, first + own_row) || (CAUSAL && at >= own_end - text.begin)) {
            continue;
        }
        multiply();
        float most[LANE_ROWS];
        [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
            most[h] = largest[h];
        }
        [[unroll]] for (uint n = 0u; n < WIDE; n++) {
            [[unroll]] for (uint e = 0u; e < ELEMENTS; e++) {
                uint query = first + own_row + row_of(e / ROW_ELEMENTS);
                uint other = MATRIX_N * n + column_of(e);
                bool seen = query >= row && query < to && other < others && (!CAUSAL || at + other <= query - text.begin);
                score[n][e] = seen ? fma(score[n][e], unit, fault_of(other)) : NONE;
                most[e / ROW_ELEMENTS] = max(most[e / ROW_ELEMENTS], score[n][e]);
            }
        }
        float shift[LANE_ROWS], shrink[LANE_ROWS];
        [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
            OVER_ROW(max, most[h])
            // A row without visible keys so far: its weights are still powers of minus infinity.
            shift[h] = most[h] == NONE ? 0.0 : most[h];
            shrink[h] = most[h] == largest[h] ? 1.0 : exp2(largest[h] - shift[h]);
            largest[h] = most[h];
            total[h] *= shrink[h];
        }
        ANY_ROW(shrink, 1.0, shrinks)
        if (shrinks) {
            SCALE_ROWS(first_result, shrink)
        }
        LEFT slope[WIDE];
        [[unroll]] for (uint n = 0u; n < WIDE; n++) {
            [[unroll]] for (uint e = 0u; e < ELEMENTS; e++) {
                float own = exp2(score[n][e] - shift[e / ROW_ELEMENTS]);
                total[e / ROW_ELEMENTS] += own;
                // A hidden key has no effect, whatever its number.
                slope[n][e] = ELEMENT(own == 0.0 ? 0.0 : own * (change[n][e] - d[e / ROW_ELEMENTS]));
            }
        }
        [[unroll]] for (uint n = 0u; n < WIDE; n++) {
            [[unroll]] for (uint i = 0u; i < SLICES; i++) {
                RIGHT key;
                coopMatLoad(key, tile, MATRIX_N * n * STRIDE + TERM_QUADS * i, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                first_result[i] = coopMatMulAdd(slope[n], key, first_result[i]);
            }
        }
    }
}
#endif

void add_texts() {
    uint row = first;
    while (row < last) {
        Place text = row_place(row);
        uint to = min(text.end, last);
        add_text(text, row, to);
        row = to;
    }
}

void main() {
    uint rows = row_place(0u).rows;
    first = min((gl_WorkGroupID.z * 65535u + gl_WorkGroupID.x) * TILE, rows);
    last = min(first + TILE, rows);
    own_row = MATRIX_M * gl_SubgroupID;
    unit = push.scale * LOG2_E;
    [[unroll]] for (uint i = 0u; i < SLICES; i++) {
        first_result[i] = SUM(0.0);
#ifdef KEYS
        second_result[i] = SUM(0.0);
#endif
    }
    if (gl_LocalInvocationIndex < 3u) {
        faults[gl_LocalInvocationIndex] = 0u;
    }
#ifdef KEYS
    set_head(gl_WorkGroupID.y * push.group);
    load_own();
    for (uint number = 0u; number < push.group; number++) {
        set_head(gl_WorkGroupID.y * push.group + number);
        add_texts();
    }
    [[unroll]] for (uint i = 0u; i < SLICES; i++) {
        first_result[i] = first_result[i] * push.scale;
    }
    store_dk();
    store_dv();
#else
    set_head(gl_WorkGroupID.y);
    load_own();
    [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
        d[h] = d_of(min(first + own_row + row_of(h), last - 1u));
        largest[h] = NONE;
        total[h] = 0.0;
    }
    add_texts();
    [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
        OVER_ROW(PLUS, total[h])
        uint row = first + own_row + row_of(h);
        if (gl_SubgroupInvocationID % ROW_LANES == 0u && row < last) {
            query_rows[row * query_fields() + PLACES + push.heads + head] = floatBitsToUint(largest[h] + log2(total[h]));
        }
        // The weights of a row without keys have a sum of zero.
        total[h] = total[h] == 0.0 ? 0.0 : push.scale / total[h];
    }
    SCALE_ROWS(first_result, total)
    store_dq();
#endif
}
