#version 460
// Computes: the scale of each group of neighbours in x [rows, columns], times factors [columns] with FACTORS: 127 / max |x|,
// with MEAN n / sum |x|, with AFFINE 255 / (max - min) of a range that includes 0, and zero, after each scale with PAIRS. The
// first of the two dispatches of quantize_rows.
// Grid: groups of all rows workgroups of 256 invocations, continued along y.
// Reduction order: of sums, lanes 256 apart, of a lane sixteen numbers, sixteen such sums, and so on, then a tree; of others
// irrelevant, a maximum.
// Assumes: elements < 2^32.
//# numerics = ["run", "everywhere"]
//#
//# [builds]
//# quantize-rows-scales-affine = { define = "AFFINE" }
#include "counts.glsl"
#include "numbers/quotient.glsl"

layout(local_size_x = 256) in;
#ifndef AFFINE
layout(constant_id = 0) const bool MEAN = false;
#else
layout(constant_id = 0) const bool PAIRS = false;
layout(std430, binding = 4) writeonly buffer Zero { int zero[]; };
#endif
layout(constant_id = 1) const bool FACTORS = false;

layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) readonly buffer Factors { float factors[]; };
layout(std430, binding = 3) writeonly buffer Scale { float scale[]; };

layout(push_constant) uniform Push {
    ROW_MEMBERS
    // Columns of a group, and groups of a row.
    uint group;
    uint groups;
} push;

const uint INFINITY = 0x7f800000u;
const uint NOT_A_NUMBER = 0x7fc00000u;

// The largest magnitude as an integer, of which infinity and NaN are above all numbers.
shared uint largest[256];
// With MEAN the sum of magnitudes, with AFFINE half the largest and half the smallest element, whose difference is finite.
shared vec2 parts[256];

vec2 joined(vec2 a, vec2 b) {
#ifdef AFFINE
    return vec2(max(a.x, b.x), min(a.y, b.y));
#else
    return vec2(a.x + b.x, 0.0);
#endif
}

void main() {
    uint place = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (place >= batch_rows(push.rows_of, push.rows) * push.groups) {
        return;
    }
    uint start = place % push.groups * push.group;
    uint count = min(push.group, push.columns - start);
    uint first = place / push.groups * push.columns + start;
    uint lane = gl_LocalInvocationIndex;
    uint most = 0u;
    vec2 own = vec2(0.0);
#ifndef AFFINE
    vec4 sums = vec4(0.0);
    uint turn = 0u;
#endif
    for (uint i = lane; i < count; i += 256u) {
        precise float element = SETTLED(x[first + i]);
        if (FACTORS) {
#ifdef EVERYWHERE
            element = settled_product(element, settled(factors[start + i]));
#else
            element *= factors[start + i];
#endif
        }
        most = max(most, floatBitsToUint(element) & 0x7fffffffu);
#ifdef AFFINE
        own = joined(own, vec2(0.5 * element));
#else
        // A tensor has millions: sums of 16, of 256 and of 4096 numbers, and of all.
        sums.x += abs(element);
        turn++;
        if (turn % 16u == 0u) {
            sums = vec4(0.0, sums.y + sums.x, sums.z, sums.w);
        }
        if (turn % 256u == 0u) {
            sums = vec4(0.0, 0.0, sums.z + sums.y, sums.w);
        }
        if (turn % 4096u == 0u) {
            sums = vec4(0.0, 0.0, 0.0, sums.w + sums.z);
        }
#endif
    }
#ifndef AFFINE
    own.x = (sums.w + sums.z) + (sums.y + sums.x);
#endif
    largest[lane] = most;
    parts[lane] = own;
    for (uint step = 128u; step > 0u; step /= 2u) {
        barrier();
        if (lane < step) {
            largest[lane] = max(largest[lane], largest[lane + step]);
            parts[lane] = joined(parts[lane], parts[lane + step]);
        }
    }
    if (lane != 0u) {
        return;
    }
    bool finite = largest[0] < INFINITY;
    float found = uintBitsToFloat(NOT_A_NUMBER);
#ifdef AFFINE
    int middle = 0;
    if (finite) {
        found = quotient(127.5, max(parts[0].x - parts[0].y, 5e-6));
        precise float least = 2.0 * parts[0].y * found;
        middle = clamp(-128 - int(roundEven(least)), -128, 127);
    }
    if (PAIRS) {
        scale[2u * place] = found;
        scale[2u * place + 1u] = float(middle);
    } else {
        scale[place] = found;
        zero[place] = middle;
    }
#else
    if (MEAN) {
        float elements = float(max(count, 1u));
        precise float sum = max(parts[0].x, elements * 1e-5);
        // From 2^126 on the quotient is no normal number.
        if (finite && floatBitsToUint(sum) < 253u << 23u) {
            found = quotient(elements, sum);
        }
    } else if (finite) {
        found = quotient(127.0, max(uintBitsToFloat(largest[0]), 1e-5));
    }
    scale[place] = found;
#endif
}
