#version 460
// Computes: dq[i, h] = scale sum_j p (g[i, h] . v[j, n] - d[i, h]) c k[j, n] over the keys j that query i sees, n = h / group; p
// their weights, c the derivative of the soft cap. With KEYS dk[j, n], the same sum over h and i of q[i, h]; with VALUES
// dv[j, n] = sum_h sum_i p g[i, h]. With DROPOUT g . v, and p in dv, lose the elements that the weights lost. Without these, also the logarithm of the sum of each query's weights, which they read.
// Grid: x = ceil(rows / 64) tiles of packed queries, or keys, which may include several texts, continued along z; y = heads, or
// those of keys.
// Reduction order: columns of a head in order; heads that share a key, their texts, and in each text blocks of 64 from its
// first row, all in order. A block of which a row sees nothing changes none of its bits.
// Assumes: the places and d in scratch memory; with VECTOR, HEAD_DIM and all strides and columns are multiples of 4.
//# stored = ["float32", "float16", "bfloat16"]
//# made_of = { push = "Backward", constants = "Blocks" }
//#
//# [builds]
//# attention-backward-keys = { define = "KEYS" }
//# attention-backward-values = { define = "VALUES" }
#extension GL_EXT_control_flow_attributes : require
#include "numbers.glsl"
#include "stored.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint HEAD_DIM = 64;
ALIGNED_ROWS(VECTOR, 1);

// A row is one of the workgroup's tile: a query, or a key with KEYS and VALUES; the rows that it meets are others.
#include "attention/attention-backward-places.glsl"
#include "attention/attention-heads.glsl"
#if defined(KEYS) || defined(VALUES)
#define BY_KEY
#endif

INPUT_HEADS(0, q)
INPUT_HEADS(1, k)
INPUT_HEADS(2, g)
// Per query its place, d of each head, and the logarithm of the sum of its weights of each head. The kernel that writes these
// reads places from a buffer of their own: they bound its loops, and WGSL has barriers in loops only where the bounds come from
// memory that the kernel does not write.
#ifdef BY_KEY
layout(std430, binding = 3) readonly buffer QueryRows { uint query_rows[]; };
#else
layout(std430, binding = 3) buffer QueryRows { uint query_rows[]; };
#endif
// As in attention-push.glsl.
layout(std430, binding = 4) readonly buffer Bias { float bias[]; };
#ifdef VALUES
layout(std430, binding = 5) readonly buffer KeyRows { uint key_rows[]; };
OUTPUT(6, dv, QUAD)
#else
INPUT_HEADS(5, v)
#ifdef KEYS
layout(std430, binding = 6) readonly buffer KeyRows { uint key_rows[]; };
OUTPUT(7, dk, QUAD)
#else
layout(std430, binding = 6) readonly buffer QueryPlaces { uint query_places[]; };
OUTPUT(7, dq, QUAD)
#endif
#endif

#define MASKS_AND_BIASES
#define CAUSAL (push.causal != 0u)
#define WINDOW (push.window != 0u)

#include "attention/attention-backward-heads.glsl"

#ifdef BY_KEY
PLACE_OF(query_place, query_rows, query_fields())
PLACE_OF(row_place, key_rows, PLACES)
#else
PLACE_OF(row_place, query_places, PLACES)
#endif

// Four columns of the head of a row; zeros where `there` is false.
#define OF_HEAD(NAME)                                                                                                  \
    vec4 of_##NAME(bool there, uint row, uint column) {                                                                \
        return load_##NAME(there, row * push.NAME##_stride + NAME##_column + column, column);                          \
    }
OF_HEAD(q)
OF_HEAD(k)
#ifndef VALUES
OF_HEAD(v)
#endif

vec4 of_g(bool there, uint row, uint column) {
    return load_g(there, (row * push.heads + head) * HEAD_DIM + column, column);
}

#define DROPOUT_KEY 4
#include "attention/attention-dropout.glsl"
#include "attention/attention-sight.glsl"
#include "attention-backward.blocks.glsl"
#include "attention-backward.weights.glsl"

// Adds what rows get from `count` others, of which some are hidden from some rows if `edge`.
void add_block(Meeting met, uint others, uint count, bool edge) {
    vec4 score[ROWS], slope[ROWS];
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        score[i] = vec4(0.0);
        slope[i] = vec4(0.0);
    }
    bool busy = first + ty < met.to && first + ty + ROWS > met.from && 4u * tx < count;
    for (uint chunk = 0u; chunk < CHUNKS; chunk++) {
        barrier();
        stage_scores(others, count, chunk);
        barrier();
        if (busy) {
            ADD_PRODUCTS(score)
        }
    }
#ifndef VALUES
    for (uint chunk = 0u; chunk < CHUNKS; chunk++) {
        barrier();
        stage_slopes(others, count, chunk);
        barrier();
        if (busy) {
            ADD_PRODUCTS(slope)
        }
    }
#endif
    barrier();
    weigh(met, others, count, edge, score, slope);
    bool own_0 = first + tr >= met.from && first + tr < met.to;
    bool own_1 = first + tr + 1u >= met.from && first + tr + 1u < met.to;
    [[unroll]] for (uint chunk = 0u; chunk < CHUNKS; chunk++) {
        if (chunk > 0u) {
            barrier();
        }
        stage_values(others, count, chunk);
        barrier();
        if (own_0 || own_1) {
            add_values(chunk, count, own_0, own_1, shrink_of(tr), shrink_of(tr + 1u), edge);
        }
    }
}

// Adds the blocks of the queries of one text, or of its keys.
void add_text(Meeting met) {
#ifdef BY_KEY
    uint begin = met.q_begin, all = met.queries;
#else
    uint begin = met.k_begin, all = met.keys;
#endif
    for (uint at = 0u; at < all; at += BLOCK) {
        uint count = min(BLOCK, all - at);
#ifdef BY_KEY
        int key = int(met.from - met.k_begin), keys = int(met.to - met.from);
        int from = place_of(at, met.queries, met.keys), to = from + int(count) - 1;
#else
        int key = int(at), keys = int(count);
        int from = place_of(met.from - met.q_begin, met.queries, met.keys), to = from + int(met.to - met.from) - 1;
#endif
        // Pairs that see nothing of each other are skipped.
        if (sees_some(sight_of_any(from, to, int(met.keys)), key, keys)) {
            add_block(met, begin + at, count, !sees_each(sight_of_all(from, to, int(met.keys)), key, keys));
        }
    }
}

void main() {
    // Loops with barriers are bounded by local variables: WGSL takes those of a module to differ between invocations.
    uint rows = row_place(0u).rows;
    uint row_0 = min((gl_WorkGroupID.z * 65535u + gl_WorkGroupID.x) * BLOCK, rows);
    uint end = min(row_0 + BLOCK, rows);
    first = row_0;
    last = end;
    begin_results();
#ifdef BY_KEY
    for (uint number = 0u; number < push.group; number++) {
        set_head(gl_WorkGroupID.y * push.group + number);
#else
        set_head(gl_WorkGroupID.y);
        begin_rows();
#endif
        uint row = row_0;
        while (row < end) {
            Place own = row_place(row);
            uint to = min(own.end, end);
#ifdef BY_KEY
            uint query = own.others_begin;
            while (query < own.others_end) {
                Place text = query_place(query);
                add_text(Meeting(row, to, text.begin, text.end - text.begin, own.begin, own.end - own.begin, text.text));
                query = max(text.end, query + 1u);
            }
#else
            uint keys = own.others_end - own.others_begin;
            add_text(Meeting(row, to, own.begin, own.end - own.begin, own.others_begin, keys, own.text));
#endif
            row = max(to, row + 1u);
        }
#ifdef BY_KEY
    }
#endif
    end_rows();
    store();
}
