#version 460
// Computes: y[i, h] = sum_j softmax_j(cap(scale q[i, h] . k[j, g]) + bias[h, j - place(i)]) v[j, g], j over the keys of
// i's text that i sees, g = h / group, cap(s) = SOFT_CAP tanh(s / SOFT_CAP), or s, on matrix cores: q, k, v, y float16
// or bfloat16; scores, sums of weights and results in float32; weights are rounded to the type of v. With DISTANCES what is
// scaled is q[i, h] . k[j, g] and the terms of attention.distances.glsl.
// Grid: x = floor(T / TILE) + B tiles of TILE = MATRIX_M SUBGROUPS queries of one text, continued along z; y = heads. PARTS
// subgroups have MATRIX_M rows.
// Reduction order: keys in blocks of KEYS from the text's first; within a block, the order of the device's matrix
// cores, terms of a score by parts of the columns. A block without visible keys for a subgroup's rows is skipped; one without visible keys for a row changes none
// of its bits.
// Assumes: offsets [B + 1] increase to the rows of q and k; HEAD_DIM, strides and columns are multiples of UNIT, in which
// the latter two are counted; subgroups of INVOCATIONS / SUBGROUPS invocations, MATRIX_M to 4 MATRIX_M; MATRIX_N = MATRIX_K, of
// which the columns past HEAD_DIM are zeros. With ROWS_IN_LANES the matrix layout that matrix-layout.glsl finds; without it no keys are hidden.
//# # 16 bits on matrix cores: in registers where it is known which lane holds which element, as bfloat16 demands.
//# stored = ["float16", "bfloat16"]
//# made_of = { constants = "Blocks" }
//#
//# [[variants]]
//# # Of numbers NVIDIA's driver makes faster code than of constants.
//# name = "rows-in-quads"
//# only = ["float16"]
//# needs = ["matrix_rows_in_quads", "matrix_rows_in_lanes", "coopmat_f16_f32_16x16x16", "float16", "storage16", "subgroup_shuffle", "subgroup_arithmetic", "subgroup_vote"]
//# when = ["subgroup_size >= 32", "subgroup_size <= 32", "k >= 8", "k <= 256"]
//# defines = { ROWS_IN_LANES = "1", MATRIX_M = "16u", MATRIX_N = "16u", MATRIX_K = "16u", LANES = "32u", ROW_LANES = "4u", RUN = "2u" }
//#
//# [[variants]]
//# name = "rows-in-lanes"
//# only = ["float16"]
//# matrices = "f16_f32"
//# needs = ["matrix_rows_in_lanes", "float16", "storage16", "subgroup_shuffle", "subgroup_arithmetic", "subgroup_vote"]
//# when = ["k >= 8", "k <= 256"]
//# defines = { ROWS_IN_LANES = "1" }
//#
//# [[variants]]
//# only = ["float16"]
//# matrices = "f16_f32"
//# needs = ["float16", "storage16", "subgroup_shuffle", "subgroup_arithmetic", "subgroup_vote"]
//# when = ["k >= 8", "k <= 128"]
//#
//# [[variants]]
//# name = "rows-in-quads"
//# only = ["bfloat16"]
//# needs = ["matrix_rows_in_quads", "matrix_rows_in_lanes", "coopmat_bf16_f32_16x16x16", "float16", "subgroup_shuffle", "subgroup_arithmetic", "subgroup_vote"]
//# when = ["subgroup_size >= 32", "subgroup_size <= 32", "k >= 8", "k <= 256"]
//# defines = { ROWS_IN_LANES = "1", MATRIX_M = "16u", MATRIX_N = "16u", MATRIX_K = "16u", LANES = "32u", ROW_LANES = "4u", RUN = "2u" }
//#
//# [[variants]]
//# name = "rows-in-lanes"
//# only = ["bfloat16"]
//# matrices = "bf16_f32"
//# needs = ["matrix_rows_in_lanes", "float16", "subgroup_shuffle", "subgroup_arithmetic", "subgroup_vote"]
//# when = ["k >= 8", "k <= 256"]
//# defines = { ROWS_IN_LANES = "1" }
//#
//# [builds]
//# attention-matrix-distances = { define = "DISTANCES", of = "ROWS_IN_LANES" }  # with terms by distance in place of biases
#include "stored.glsl"
#include "matrix/cooperative-matrix.glsl"
#include "matrix/units.glsl"
#include "attention/attention-halves.glsl"

// Subgroups that share rows: the queries and results of wide heads do not fit the registers of one.
layout(constant_id = 12) const uint SHARING = 1;
#define PARTS SHARING
#include "attention/attention-tile.glsl"
#include "attention-matrix.parts.glsl"

// Elements that are read, and written, at once.
layout(constant_id = 8) const uint UNIT = 8;
// Whether scores change by more than a factor.
#define CHANGES (BIAS || SOFT_CAP > 0.0)

UNITS(1, readonly, q)
UNITS(2, readonly, k)
UNITS(3, readonly, v)
UNITS(7, writeonly, y)

// Quads, of eight elements each, of a part of a head in matrices, of all, and of a row in shared memory, plus one so that rows start
// at different banks.
const uint PART_QUADS = SLICES * MATRIX_N / 8u;
const uint QUADS = PARTS * PART_QUADS;
const uint STRIDE = QUADS + 1u;
// Units of a head, and of a quad.
const uint HEAD_UNITS = HEAD_DIM / UNIT;
const uint QUAD_UNITS = 8u / UNIT;
#define WHOLE (HEAD_DIM == 8u * QUADS)
UNIT_OF(q, UNIT)
UNIT_OF(k, UNIT)
UNIT_OF(v, UNIT)
EIGHTS_OF(q, UNIT, WHOLE)
EIGHTS_OF(k, UNIT, WHOLE)
EIGHTS_OF(v, UNIT, WHOLE)
PUTS(y, UNIT)
// Quads of a block's keys, or values, and quads that an invocation loads.
const uint BLOCK = KEYS * QUADS;
const uint LOADS = (BLOCK + INVOCATIONS - 1u) / INVOCATIONS;

// The block's keys, then its values; before the loop the tile's queries, after it its results.
const uint VALUES = KEYS * STRIDE > JOINED ? KEYS * STRIDE : JOINED;
const uint BLOCKS = VALUES + KEYS * STRIDE;
shared uvec4 tile[BLOCKS > TILE * STRIDE ? BLOCKS : TILE * STRIDE];
// The index after the first key of the last block that contained a NaN or infinite value which some query might not
// see.
shared uint tainted;

// The weights of the block's scores.
LEFT weight[WIDE];
// Powers of two: the scale and log2 e are one factor, unless scores change in between.
float scale;
// The row of the biases.
uint table;

// The bias of key `key` for row `row` of the subgroup.
float bias_of(uint key, uint row) {
#ifdef DISTANCES
    return 0.0;
#else
    return bias[int(table) + clamp(int(key) - own_place - int(row), -int(push.reach), int(push.reach))];
#endif
}

// A score times the scale, capped, plus the bias.
float changed(float product, uint key, uint row) {
    if (SOFT_CAP > 0.0) {
        float capped = SOFT_CAP * hyperbolic_tangent(product * push.scale / SOFT_CAP);
        return BIAS ? capped + bias_of(key, row) : capped;
    }
    return fma(product, push.scale, bias_of(key, row));
}

#ifdef ROWS_IN_LANES
#include "attention-matrix.rows-in-lanes.glsl"
#ifdef DISTANCES
#include "attention-matrix.distances.glsl"
// Whether subgroups without scores wait at the barriers of the others; lavapipe takes a subgroup's for one of the workgroup.
#define TOGETHER true
#endif
#else
#include "attention-matrix.rows-shared.glsl"
#endif

#ifndef TOGETHER
#define TOGETHER (PARTS > 1u)
#endif

// Loads keys at .. at + KEYS - 1 of the text; zeros past its last key, so that whatever is stored there has no effect.
void load(uint key_first, uint at, uint count, uint k_column, uint v_column, bool edge) {
    uvec4 keys[LOADS];
    uvec4 values[LOADS];
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint quad = gl_LocalInvocationIndex + INVOCATIONS * i;
        bool there = at + quad / QUADS < count && quad < BLOCK;
        uint row = key_first + (there ? at + quad / QUADS : at);
        uint column = quad % QUADS;
        uint k_at = row * push.k_stride + k_column + column * QUAD_UNITS;
        uint v_at = row * push.v_stride + v_column + column * QUAD_UNITS;
        keys[i] = mix(uvec4(0u), eight_of_k(k_at, 8u * column, HEAD_DIM), bvec4(there));
        values[i] = mix(uvec4(0u), eight_of_v(v_at, 8u * column, HEAD_DIM), bvec4(there));
    }
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint quad = gl_LocalInvocationIndex + INVOCATIONS * i;
        if (quad < BLOCK) {
            uint slot = quad / QUADS * STRIDE + quad % QUADS;
            if (HIDES && edge) {
                uvec4 clean = finite(values[i]);
                if (clean != values[i]) {
                    tainted = at + 1u;
                }
                values[i] = clean;
            }
            tile[slot] = keys[i];
            tile[VALUES + slot] = values[i];
        }
    }
}

void main() {
    if (set_tile()) {
        return;
    }
    uint head = gl_WorkGroupID.y;
    uint k_column = push.k_column + head / push.group * HEAD_UNITS;
    uint v_column = push.v_column + head / push.group * HEAD_UNITS;
    uint lane = gl_SubgroupInvocationID;
    uint own_quad = own_column / 8u;
    table = BIAS ? bias_row(head) : 0u;
    scale = CHANGES ? LOG2_E : abs(push.scale) * LOG2_E;

    // Rows past the text's end repeat its last. A negative scale moves to the queries: the largest score then has the largest weight.
    uvec4 sign = uvec4(!CHANGES && push.scale < 0.0 ? 0x80008000u : 0u);
    for (uint i = lane; i < MATRIX_M * PART_QUADS; i += LANES) {
        uint row = min(first + own_row + i / PART_QUADS, last - 1u);
        uint column = own_quad + i % PART_QUADS;
        uint q_at = row * push.q_stride + push.q_column + head * HEAD_UNITS + column * QUAD_UNITS;
        tile[(own_row + i / PART_QUADS) * STRIDE + column] = sign ^ eight_of_q(q_at, 8u * column, HEAD_DIM);
    }
    if (gl_LocalInvocationIndex == 0u) {
        tainted = 0u;
    }
    subgroupBarrier();
    LEFT query[SLICES];
    [[unroll]] for (uint i = 0u; i < SLICES; i++) {
        coopMatLoad(query[i], tile, own_row * STRIDE + own_quad + TERM_QUADS * i, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        result[i] = SUM(0.0);
    }
    begin(key_count);
    uint limit = uint(end_of(some));
    for (uint at = 0u; at < limit; at += KEYS) {
        if (WINDOW && int(at) >= some.leading) {
            // Blocks that no query of the tile sees are skipped.
            at = max(at, uint(some.begin) / KEYS * KEYS);
        }
        int keys = int(min(KEYS, key_count - at));
        barrier();
        load(key_first, at, key_count, k_column, v_column, HIDES && !sees_each(each, int(at), keys));
#ifdef DISTANCES
        load_distances(at, place_of(first - text_first, last - text_first, key_count));
#endif
        barrier();
        bool idle = !busy || (HIDES && !sees_some(own_some, int(at), keys));
        if (!TOGETHER && idle) {
            continue;
        }
        [[unroll]] for (uint n = 0u; n < WIDE; n++) {
            score[n] = SUM(0.0);
            [[unroll]] for (uint i = 0u; i < SLICES; i++) {
                RIGHT key;
                uint slot = MATRIX_N * n * STRIDE + own_quad + TERM_QUADS * i;
                coopMatLoad(key, tile, slot, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
                score[n] = coopMatMulAdd(query[i], key, score[n]);
            }
        }
#ifdef DISTANCES
        add_distances(query);
#endif
        if (PARTS > 1u) {
            JOIN_PARTS(tile)
        }
        if (TOGETHER && idle) {
            continue;
        }
        soften(at, key_count, HIDES && !sees_each(own_each, int(at), keys));
        [[unroll]] for (uint n = 0u; n < WIDE; n++) {
            [[unroll]] for (uint i = 0u; i < SLICES; i++) {
                RIGHT value;
                uint slot = VALUES + MATRIX_N * n * STRIDE + own_quad + TERM_QUADS * i;
                coopMatLoad(value, tile, slot, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                result[i] = coopMatMulAdd(weight[n], value, result[i]);
            }
        }
        if (HIDES && tainted == at + 1u) {
            add_others(at, key_count, key_first, v_column);
        }
    }
    barrier();
    if (!busy) {
        return;
    }
    divide();
#if STORED == FLOAT16
    [[unroll]] for (uint i = 0u; i < SLICES; i++) {
        coopMatStore(HALF(result[i]), tile, own_row * STRIDE + own_quad + TERM_QUADS * i, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    }
#else
    put();
#endif
    subgroupBarrier();
    for (uint i = lane; i < MATRIX_M * PART_QUADS; i += LANES) {
        uint at = first + own_row + i / PART_QUADS;
        uint column = own_quad + i % PART_QUADS;
        uint y_at = at * push.y_stride + head * HEAD_UNITS + column * QUAD_UNITS;
        if (at < last) {
            [[unroll]] for (uint j = 0u; j < QUAD_UNITS; j++) {
                if (WHOLE || 8u * column + UNIT * j < HEAD_DIM) {
                    put_unit(y_at + j, tile[(own_row + i / PART_QUADS) * STRIDE + column], UNIT * j);
                }
            }
        }
    }
}
