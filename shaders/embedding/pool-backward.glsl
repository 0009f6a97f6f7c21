#version 460
// Computes: y [T, columns], the gradient of one mode of pool in its rows, of g [B, g_columns] the columns from g_column on; x
// [T, columns]. With ADDED, added to y.
// Grid: x = ceil(columns / 64), y = texts + 1, continued along z; an invocation owns one column of one text, the last group that of
// the rows of no text.
// Reduction order: none; with ADDED, modes in order.
// Assumes: offsets [B + 1] increase; tokens before offsets[i] + first[i] are excluded.
#include "counts.glsl"
#include "kinds.glsl"
#include "numbers.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint MODE = 2;
layout(constant_id = 1) const bool ADDED = false;

layout(std430, binding = 1) readonly buffer G { float g[]; };
layout(std430, binding = 2) readonly buffer X { float x[]; };
layout(std430, binding = 3) readonly buffer Offsets { uint offsets[]; };
layout(std430, binding = 4) readonly buffer First { uint first[]; };
layout(std430, binding = 5) buffer Y { float y[]; };

layout(push_constant) uniform Push {
    ROW_MEMBERS
    uint g_columns;
    uint g_column;
} push;

void put(uint token, uint column, float value) {
    uint at = token * push.columns + column;
    y[at] = ADDED ? y[at] + value : value;
}

void main() {
    uint column = gl_WorkGroupID.x * 64u + gl_LocalInvocationID.x;
    uint text = group_y();
    if (column >= push.columns || text > counts.texts) {
        return;
    }
    if (text == counts.texts) {
        for (uint token = 0u; token < offsets[0]; token++) {
            put(token, column, 0.0);
        }
        for (uint token = offsets[text]; token < batch_rows(push.rows_of, push.rows); token++) {
            put(token, column, 0.0);
        }
        return;
    }
    uint start = offsets[text], end = offsets[text + 1u];
    uint from = start + min(first[text], end - start);
    float n = float(end - from);
    uint chosen = MODE == POOL_LAST_TOKEN ? end - 1u : from;
    if (MODE == POOL_MAX && from < end) {
        float most = x[from * push.columns + column];
        for (uint token = from + 1u; token < end; token++) {
            float value = x[token * push.columns + column];
            if (value > most || (is_nan(value) && !is_nan(most))) {
                most = value;
                chosen = token;
            }
        }
    }
    float factor = g[text * push.g_columns + push.g_column + column];
    float divisor = 1.0;
    if (MODE == POOL_MEAN) {
        divisor = n;
    } else if (MODE == POOL_MEAN_SQRT_LENGTH) {
        divisor = sqrt(n);
    } else if (MODE == POOL_WEIGHTED_MEAN) {
        // The weights are consecutive numbers, so their sum is their mean times their count.
        divisor = 0.5 * n * float((from - start + 1u) + (end - start));
    }
    for (uint token = start; token < end; token++) {
        float weight = MODE == POOL_WEIGHTED_MEAN ? float(token - start + 1u) / divisor : 1.0 / divisor;
        bool one = MODE == POOL_CLS || MODE == POOL_MAX || MODE == POOL_LAST_TOKEN;
        bool is_pooled = token >= from && (!one || token == chosen);
        put(token, column, is_pooled ? weight * factor : 0.0);
    }
}
