#version 460
// Computes: y = scores + mask_value where a key is hidden (causal: j > i; mask[b, j] == 0), else scores; [B, H, S, K].
// Grid: x = workgroups of 256 invocations that together loop over all quads of scores, or over single scores.
// Reduction order: none.
// Assumes: fewer than 2^32 elements; with VECTOR, K a multiple of 4.
#include "stored.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const bool VECTOR = false;
layout(constant_id = 1) const bool CAUSAL = true;
layout(constant_id = 2) const bool MASK = false;

INPUT(0, scores, vec4)
INPUT(1, mask, vec4)
OUTPUT(2, y, vec4)

layout(push_constant) uniform Push {
    uint elements;
    uint keys;
    // Rows of one head.
    uint rows;
    // Rows of one batch item.
    uint each;
    float mask_value;
} push;

const uint WIDTH = VECTOR ? 4u : 1u;

void main() {
    uint step = 256u * gl_NumWorkGroups.x;
    for (uint place = gl_GlobalInvocationID.x; place < push.elements / WIDTH; place += step) {
        uint row = place * WIDTH / push.keys;
        uint key = place * WIDTH % push.keys;
        uint kept = row / push.each * push.keys + key;
        uvec4 key_4 = key + uvec4(0u, 1u, 2u, 3u);
        bvec4 hidden = bvec4(false);
        if (CAUSAL) {
            hidden = greaterThan(key_4, uvec4(row % push.rows));
        }
        if (VECTOR) {
            if (MASK) {
                bvec4 zero = equal(mask_4[kept / 4u], vec4(0.0));
                hidden = bvec4(uvec4(hidden) | uvec4(zero));
            }
            vec4 score = scores_4[place];
            y_4[place] = mix(score, score + push.mask_value, hidden);
        } else {
            if (MASK) {
                hidden.x = hidden.x || mask[kept] == 0.0;
            }
            float score = scores[place];
            y[place] = hidden.x ? score + push.mask_value : score;
        }
    }
}
