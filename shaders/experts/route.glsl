#version 460
// Computes: of each row of scores [rows, EXPERTS] the TOP_K experts of largest score, chosen [rows, TOP_K], the first of
// equal ones; weight [rows, TOP_K], their softmax; and of each workgroup's rows how many places are each expert's.
// Grid: x = ceil(rows / 256), continued along z; an invocation owns a row.
// Reduction order: experts in order.
// Assumes: TOP_K at most EXPERTS, EXPERTS at most 4096.
//# stored = ["float32", "float16", "bfloat16"]
//# numerics = ["run", "everywhere"]
#extension GL_EXT_control_flow_attributes : require
#include "counts.glsl"
#include "numbers.glsl"
#include "stored.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint EXPERTS = 8;
layout(constant_id = 1) const uint TOP_K = 2;
// Whether the weights of a row add up to one.
layout(constant_id = 2) const bool NORMALIZED = false;

INPUT(1, scores, QUAD)
layout(std430, binding = 2) writeonly buffer Weight { float weight[]; };
layout(std430, binding = 3) writeonly buffer Chosen { uint chosen[]; };
layout(std430, binding = 4) writeonly buffer CountsOfBlocks { uint counts_of_blocks[]; };

ROW_PUSH

shared uint places[EXPERTS];

float score(uint row, uint expert) {
    return SETTLED((NUMBER(scores, row * push.columns + expert)));
}

// Integers in the order of the numbers, NaN last; zeros of both signs are equal.
uint rank_of(float x) {
    uint bits = floatBitsToUint(x);
    uint magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return 0xffffffffu;
    }
    return magnitude == bits || magnitude == 0u ? magnitude | 0x80000000u : ~bits;
}

void choose(uint row) {
    float most = score(row, 0u);
    for (uint expert = 1u; expert < EXPERTS; expert++) {
        most = nan_max(most, score(row, expert));
    }
    float weights[TOP_K];
    float sum = 0.0;
    // The last that was chosen; those of lower rank follow, and of equal rank those behind it.
    uint rank = 0u, last = 0u;
    for (uint place = 0u; place < TOP_K; place++) {
        uint best = 0u, own = 0u;
        bool found = false;
        for (uint expert = 0u; expert < EXPERTS; expert++) {
            uint next = rank_of(score(row, expert));
            bool follows = place == 0u || next < rank || (next == rank && expert > last);
            if (follows && (!found || next > own)) {
                best = expert;
                own = next;
                found = true;
            }
        }
        rank = own;
        last = best;
        weights[place] = exponential(score(row, best) - most);
        sum += weights[place];
        chosen[row * TOP_K + place] = best;
        atomicAdd(places[best], 1u);
    }
    if (!NORMALIZED) {
        sum = 0.0;
        for (uint expert = 0u; expert < EXPERTS; expert++) {
            sum += exponential(score(row, expert) - most);
        }
    }
    for (uint place = 0u; place < TOP_K; place++) {
        weight[row * TOP_K + place] = CANONICAL(QUOTIENT(weights[place], sum));
    }
}

void main() {
    for (uint expert = gl_LocalInvocationIndex; expert < EXPERTS; expert += 256u) {
        places[expert] = 0u;
    }
    barrier();
    uint row = group_x() * 256u + gl_LocalInvocationIndex;
    if (row < batch_rows(push.rows_of, push.rows)) {
        choose(row);
    }
    barrier();
    uint expert_0 = group_x() * 256u < batch_rows(push.rows_of, push.rows) ? gl_LocalInvocationIndex : EXPERTS;
    for (uint expert = expert_0; expert < EXPERTS; expert += 256u) {
        counts_of_blocks[group_x() * EXPERTS + expert] = places[expert];
    }
}
