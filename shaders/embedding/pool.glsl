#version 460
// Computes: one vector per text from its tokens; x [T, columns], y [B, y_columns], of which columns from y_column on
// are written.
// Grid: x = ceil(columns / 64), y = texts, continued along z; an invocation owns one column of one text.
// Reduction order: tokens in order, in blocks of 32 from the first pooled token, whose sums are then added in order.
// Assumes: offsets [B + 1] increase to T; tokens before offsets[i] + first[i] are excluded.
//# stored = ["float32", "float16", "bfloat16"]
//# numerics = ["run", "everywhere"]
#include "counts.glsl"
#include "kinds.glsl"
#include "numbers.glsl"
#include "stored.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint MODE = 2;

#if STORED == FLOAT32
layout(std430, binding = 1) readonly buffer X { float x[]; };
#else
// Two elements each.
layout(std430, binding = 1) readonly buffer X { uint x[]; };
#endif
layout(std430, binding = 2) readonly buffer Offsets { uint offsets[]; };
layout(std430, binding = 3) readonly buffer First { uint first[]; };
layout(std430, binding = 4) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
    uint columns;
    uint y_columns;
    uint y_column;
} push;

// One column of a token.
float element(uint token, uint column) {
    uint at = token * push.columns + column;
#if STORED == FLOAT32
    return SETTLED(x[at]);
#else
    return wide(uvec2(x[at / 2u], 0u))[at % 2u];
#endif
}

void main() {
    uint column = gl_WorkGroupID.x * 64u + gl_LocalInvocationID.x;
    uint text = group_y();
    if (column >= push.columns || text >= counts.texts) {
        return;
    }
    uint start = offsets[text];
    uint end = offsets[text + 1u];
    uint from = start + min(first[text], end - start);
    float result = 0.0;
    if (from == end) {
        result = MODE == POOL_MAX ? uintBitsToFloat(0xff800000u) : 0.0;
    } else if (MODE == POOL_CLS) {
        result = element(from, column);
    } else if (MODE == POOL_LAST_TOKEN) {
        result = element(end - 1u, column);
    } else if (MODE == POOL_MAX) {
        result = element(from, column);
        for (uint token = from + 1u; token < end; token++) {
            result = nan_max(result, element(token, column));
        }
    } else {
        float total = 0.0;
#ifdef EVERYWHERE
        for (uint token = from; token < end; token++) {
            float x_at = element(token, column);
            total += MODE == POOL_WEIGHTED_MEAN ? PRODUCT(float(token - start + 1u), x_at) : x_at;
        }
#else
        for (uint block = from; block < end; block += 32u) {
            float sum = 0.0;
            for (uint token = block; token < min(block + 32u, end); token++) {
                float weight = MODE == POOL_WEIGHTED_MEAN ? float(token - start + 1u) : 1.0;
                sum = fma(weight, element(token, column), sum);
            }
            total += sum;
        }
#endif
        float n = float(end - from);
        float divisor = n;
        if (MODE == POOL_MEAN_SQRT_LENGTH) {
            divisor = sqrt(n);
        } else if (MODE == POOL_WEIGHTED_MEAN) {
            // The weights are consecutive numbers, so their sum is their mean times their count.
            divisor = 0.5 * n * float((from - start + 1u) + (end - start));
        }
        result = MODE == POOL_SUM ? total : QUOTIENT(total, divisor);
    }
    y[text * push.y_columns + push.y_column + column] = CANONICAL(result);
}
