#version 460
// Computes: y = act(x W^T + b) + residual, bit for bit as linear.glsl; for devices whose shared memory is slow.
// Grid: x = ceil(N / (64 COLUMNS)), y = ceil(M / ROWS), continued along z; 64 invocations, each ROWS rows of 1 or 4
// neighbouring columns.
// Reduction order: one fma per step, k = 0, 1, ... K - 1, from zero, at any subgroup size.
// Assumes: full subgroups, of a size that divides 64; with VECTOR, K a multiple of 4, with VECTOR_Y, N.
//# # Where shared memory is emulated, shuffles feed the lanes better.
//# variants = [{ when = ["software_device", "subgroup_shuffle", "subgroup_size <= 64"] }]
//# stored = ["float32", "float16", "bfloat16"]
//# made_of = { push = "Product", constants = "Tile" }
//#
//# [builds]
//# layer-norm-linear-shuffle = { define = "NORMED", stored = ["float32"] }
//# layer-norm-linear-folded-shuffle = { define = "FOLDED", stored = ["float16", "bfloat16"] }
//# expert-linear-shuffle = { define = "EXPERTS" }
#extension GL_KHR_shader_subgroup_shuffle : require
#include "product/linear-interface.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 4) const uint ROWS = 16;
layout(constant_id = 5) const uint COLUMNS = 4;

void main() {
    OWN_ROWS(ROWS)
    uint first_column = (gl_WorkGroupID.x * 64u + gl_LocalInvocationIndex) * COLUMNS;

    float sum[ROWS * COLUMNS];
    [[unroll]] for (uint i = 0u; i < ROWS * COLUMNS; i++) {
        sum[i] = 0.0;
    }
    for (uint start = 0u; start < push.k; start += 4u * gl_SubgroupSize) {
        // Each lane loads four k of every row; the lanes' values are then broadcast to all, in order.
        uint own = start + 4u * gl_SubgroupInvocationID;
#ifdef NORMED
        vec4 scale = load_norm_weight(0u, own, 1u);
        vec4 shift = load_norm_bias(0u, own, 1u);
#endif
        vec4 a[ROWS];
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            a[i] = load_x(X_ROW(first_row + i), own, X_ROWS);
#ifdef NORMED
            a[i] = normed(a[i], centring_of(moments[min(first_row + i, rows - 1u)]), scale, shift);
#endif
        }
        // Past K, zeros are added, which changes no bit.
        for (uint lane = 0u; lane < gl_SubgroupSize; lane++) {
            vec4 w[COLUMNS];
            [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
                w[j] = load_weight(false, WEIGHT_ROW(first_column + j), start + 4u * lane);
#ifdef FOLDED
                w[j] *= load_norm_weight(0u, start + 4u * lane, 1u);
#endif
            }
            [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                vec4 from = subgroupShuffle(a[i], lane);
                [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
                    sum[i * COLUMNS + j] = accumulate(from, w[j], sum[i * COLUMNS + j]);
                }
            }
        }
    }
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        if (first_row + i < rows && first_column < push.n) {
            if (COLUMNS == 4u) {
                uvec4 at = i * COLUMNS + min(uvec4(0u, 1u, 2u, 3u), uvec4(COLUMNS - 1u));
                finish(first_row + i, first_column, vec4(sum[at.x], sum[at.y], sum[at.z], sum[at.w]));
            } else {
                finish_one(first_row + i, first_column, sum[i]);
            }
        }
    }
}
