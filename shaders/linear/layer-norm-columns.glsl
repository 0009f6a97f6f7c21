#version 460
// Computes: the per-column terms of a product with a folded layer norm, columns [*, 2]: s = sum_k g w and c = sum_k b w +
// bias of each row of the weight, then, from an even row on, g in the weight's type and zeros; weight
// [N, K], bias [N], and the norm's weight g and bias b [K]. With ROUNDED, g and g w are rounded to the weight's type.
// Grid: x = ceil(N / (256 / LANES)), continued along y.
// Reduction order: by held-rows.glsl, fixed by K: quads, sums, groups of sums.
// Assumes: K a multiple of 4.
//# stored = ["float16", "bfloat16"]
#include "rows/held-rows.glsl"
DECLARE_TOTALS

layout(constant_id = 4) const bool BIAS = false;
layout(constant_id = 5) const bool ROUNDED = false;

layout(std430, binding = 0) readonly buffer NormWeight { vec4 norm_weight[]; };
layout(std430, binding = 1) readonly buffer NormBias { vec4 norm_bias[]; };
layout(std430, binding = 2) readonly buffer Weight { QUAD weight[]; };
layout(std430, binding = 3) readonly buffer Bias { float bias[]; };
layout(std430, binding = 4) writeonly buffer Y { vec2 y[]; };
layout(std430, binding = 4) writeonly buffer Gains { QUAD gains[]; };

layout(push_constant) uniform Push {
    // Bound rows of the weight, and the index of the first among all.
    uint rows;
    uint first;
    uint n;
    uint k;
    // Terms of g, with zeros past K.
    uint gains;
} push;

vec4 rounded(vec4 quad) {
#if STORED == FLOAT16
    return ROUNDED ? wide(halves_of(quad)) : quad;
#else
    return ROUNDED ? wide(narrow(quad)) : quad;
#endif
}

void main() {
    uint row = own_row();
    // Invocations past the last row take part in the barriers with nothing to add.
    bool there = row < push.rows;
    DECLARE_SUMS(scaled)
    DECLARE_SUMS(shifted)
    [[unroll]] for (uint i = 0u; i < quads(push.k); i++) {
        uint quad = columns_of(i).x / 4u;
        if (there && 4u * quad < push.k) {
            vec4 w = wide(weight[row * (push.k / 4u) + quad]);
            ADD_TERMS(scaled, i, rounded(w * rounded(norm_weight[quad])));
            ADD_PRODUCTS(shifted, i, w, norm_bias[quad]);
        }
    }
    vec2 sums = totals(scaled, shifted);
    if (lane() == 0u && there) {
        uint column = push.first + row;
        if (BIAS) {
            sums.y += bias[column];
        }
        y[column] = sums;
    }
    if (push.first == 0u && gl_WorkGroupID.x + gl_WorkGroupID.y == 0u) {
        for (uint quad = gl_LocalInvocationIndex; quad < push.gains / 4u; quad += 256u) {
            bool inside = 4u * quad < push.k;
            gains[push.n + push.n % 2u + quad] = narrow(mix(vec4(0.0), norm_weight[inside ? quad : 0u], bvec4(inside)));
        }
    }
}
