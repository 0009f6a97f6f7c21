#version 460
// Computes: for each query its place and, for each head, d = g . y; with KEYS for each key its place. What they are for:
// attention-backward.glsl.
// Grid: x = ceil(queries heads / 256), with KEYS ceil(keys / 256), continued along z.
// Reduction order: columns of a head in order.
// Assumes: offsets increase to the rows of q, and to at most those of k.
//# stored = ["float32", "float16", "bfloat16"]
//#
//# [builds]
//# attention-backward-key-rows = { define = "KEYS", stored = ["float32"] }
#include "attention/attention-backward-places.glsl"
#include "attention/attention-texts.glsl"
#include "counts.glsl"
#include "stored.glsl"

layout(local_size_x = 256) in;
#ifdef KEYS
layout(std430, binding = 1) readonly buffer QOffsets { uint q_offsets[]; };
layout(std430, binding = 2) readonly buffer KvOffsets { uint kv_offsets[]; };
layout(std430, binding = 3) writeonly buffer KeyRows { uint key_rows[]; };
#define ROWS key_rows
#else
INPUT(1, g, QUAD)
INPUT(2, y, QUAD)
layout(std430, binding = 3) readonly buffer QOffsets { uint q_offsets[]; };
layout(std430, binding = 4) readonly buffer KvOffsets { uint kv_offsets[]; };
layout(std430, binding = 5) writeonly buffer QueryRows { uint query_rows[]; };
// The places once more, for the kernel that writes the others.
layout(std430, binding = 6) writeonly buffer QueryPlaces { uint query_places[]; };
#define ROWS query_rows
#endif

layout(push_constant) uniform Push {
    uint rows_of;
    uint rows;
    uint heads;
    uint head_dim;
    uint shared_by;
    // Words per row of the result.
    uint fields;
} push;

void set_place(uint row, Place place) {
    uint words[PLACES] =
        uint[](place.begin, place.end, place.others_begin, place.others_end, place.text, place.rows);
    for (uint i = 0u; i < PLACES; i++) {
        ROWS[row * push.fields + i] = words[i];
#ifndef KEYS
        query_places[row * PLACES + i] = words[i];
#endif
    }
}

#ifdef KEYS
void main() {
    uint rows = batch_rows(push.rows_of, push.rows);
    uint row = 256u * group_x() + gl_LocalInvocationIndex;
    if (row >= rows) {
        return;
    }
    // The last text that starts at or before the key; rows after all texts belong to none, and meet nothing.
    uint texts = counts.texts / push.shared_by;
    bool some = texts > 0u && row < kv_offsets[texts];
    LAST_TEXT(text, texts, kv_offsets[middle] <= row)
    Place place = Place(row, row + 1u, 0u, 0u, 0u, rows);
    if (some) {
        place.begin = kv_offsets[text];
        place.end = kv_offsets[text + 1u];
        place.others_begin = q_offsets[text * push.shared_by];
        place.others_end = q_offsets[(text + 1u) * push.shared_by];
    }
    set_place(row, place);
}
#else
void main() {
    uint rows = batch_rows(push.rows_of, push.rows);
    uint number = 256u * group_x() + gl_LocalInvocationIndex;
    uint row = number / push.heads;
    uint head = number % push.heads;
    if (row >= rows) {
        return;
    }
    uint at = number * push.head_dim;
    float sum = 0.0;
#if STORED == FLOAT32
    for (uint column = 0u; column < push.head_dim; column++) {
        sum = fma(g[at + column], y[at + column], sum);
    }
#else
    for (uint column = 0u; column < push.head_dim; column += 4u) {
        vec4 one = wide(g_4[(at + column) / 4u]);
        vec4 two = wide(y_4[(at + column) / 4u]);
        sum = fma(one.w, two.w, fma(one.z, two.z, fma(one.y, two.y, fma(one.x, two.x, sum))));
    }
#endif
    query_rows[row * push.fields + PLACES + head] = floatBitsToUint(sum);
    if (head > 0u) {
        return;
    }
    // The last text that starts at or before the query.
    LAST_TEXT(text, counts.texts, q_offsets[middle] <= row)
    uint keys = text / push.shared_by;
    set_place(row, Place(q_offsets[text], q_offsets[text + 1u], kv_offsets[keys], kv_offsets[keys + 1u], text, rows));
}
#endif
