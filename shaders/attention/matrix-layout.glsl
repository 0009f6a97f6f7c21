#version 460
// Computes: y[l] = 1 if lane l holds, in 16 x 16 matrices of float32 sums and of float16 left operands, exactly the
// elements e = 0 .. 7, with element e from row l / 4 + 8 (e / 4) and column 2 (l % 4) + e % 2 + 8 (e / 2 % 2); else 0.
// Grid: one workgroup of one subgroup.
// Reduction order: none.
// Assumes: subgroups of 32. The driver determines the layout; the result holds for all shaders on the device.
//# # Not an operation: a probe, run once when a device is opened (src/backend/vulkan/probe.rs).
//# stored = ["float16"]
//# variants = [{ needs = ["coopmat_f16_f32_16x16x16", "float16"] }]
#include "matrix/cooperative-matrix.glsl"

layout(local_size_x = 32) in;
layout(std430, binding = 0) writeonly buffer Y { uint y[]; };

// Element i of either matrix, in row-major order, is i: float16 represents these numbers exactly.
shared vec4 wide[64];
shared uvec4 narrow[32];

void main() {
    uint lane = gl_LocalInvocationIndex;
    vec4 four = vec4(0.0, 1.0, 2.0, 3.0);
    wide[lane] = four + 4.0 * lane;
    wide[lane + 32u] = four + 4.0 * (lane + 32u);
    vec4 low = four + 8.0 * lane;
    vec4 high = low + 4.0;
    narrow[lane] = uvec4(packHalf2x16(low.xy), packHalf2x16(low.zw), packHalf2x16(high.xy), packHalf2x16(high.zw));
    barrier();
    SUM sum;
    coopMatLoad(sum, wide, 0u, 4u, gl_CooperativeMatrixLayoutRowMajor);
    LEFT left;
    coopMatLoad(left, narrow, 0u, 2u, gl_CooperativeMatrixLayoutRowMajor);
    bool same = sum.length() == 8 && left.length() == 8;
    for (uint e = 0u; e < 8u && same; e++) {
        uint row = gl_SubgroupInvocationID / 4u + 8u * (e / 4u);
        uint column = gl_SubgroupInvocationID % 4u * 2u + e % 2u + e / 2u % 2u * 8u;
        same = sum[e] == float(16u * row + column) && float(left[e]) == float(16u * row + column);
    }
    y[lane] = same ? 1u : 0u;
}
