#version 460
// Computes: y = cap(scores) + bias[h, clamp(j - i, -reach, reach) + reach], cap(s) = soft_cap tanh(s / soft_cap), and minus
// infinity where |j - i| > window and neither i nor j is less than global_tokens; [B, H, Sq, Sk]. 0: no cap, no window.
// Grid: x = workgroups of 256 invocations that together loop over all scores.
// Reduction order: none.
// Assumes: fewer than 2^32 elements; axes below 2^30.
#include "numbers.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const bool BIAS = false;

layout(std430, binding = 0) readonly buffer Scores { float scores[]; };
layout(std430, binding = 1) readonly buffer Bias { float bias[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };

layout(push_constant) uniform Push {
    uint elements;
    uint heads;
    uint queries;
    uint keys;
    uint reach;
    uint window;
    uint global_tokens;
    float soft_cap;
} push;

void main() {
    uint step = 256u * gl_NumWorkGroups.x;
    for (uint place = gl_GlobalInvocationID.x; place < push.elements; place += step) {
        uint key = place % push.keys;
        uint query = place / push.keys % push.queries;
        int distance = int(key) - int(query);
        float score = scores[place];
        if (push.soft_cap > 0.0) {
            score = push.soft_cap * hyperbolic_tangent(score / push.soft_cap);
        }
        if (BIAS) {
            int reach = int(push.reach);
            uint head = place / (push.keys * push.queries) % push.heads;
            score += bias[head * (2u * push.reach + 1u) + uint(clamp(distance, -reach, reach) + reach)];
        }
        bool seen = push.window == 0u || uint(abs(distance)) <= push.window || min(query, key) < push.global_tokens;
        y[place] = seen ? score : uintBitsToFloat(0xff800000u);
    }
}
