#version 460
// Computes: y[l ELEMENTS + e] = the place, in row-major order, of element e of lane l in matrices of float32 sums, and 2^16 times that in
// matrices of float16 left operands; -1 where a lane does not hold as many elements of both.
// Grid: one workgroup of one subgroup of LANES.
// Reduction order: none.
// Assumes: MATRIX_N = MATRIX_K, at most 256 elements. The driver determines the layout; the result holds for all shaders on the
// device.
//# # Not an operation: a probe, run once when a device is opened (src/backend/vulkan/probe.rs).
//# stored = ["float16"]
//# variants = [{ matrices = "f16_f32", needs = ["float16"] }]
#include "matrix/cooperative-matrix.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 32;
const uint ELEMENTS = MATRIX_M * MATRIX_N / LANES;
layout(std430, binding = 0) writeonly buffer Y { uint y[]; };

// Element i of either matrix, in row-major order, is i: float16 represents these numbers exactly.
shared vec4 wide[64];
shared uvec4 narrow[32];

void main() {
    uint lane = gl_LocalInvocationIndex;
    for (uint i = lane; i < MATRIX_M * MATRIX_N / 8u; i += LANES) {
        vec4 low = vec4(0.0, 1.0, 2.0, 3.0) + 8.0 * i;
        vec4 high = low + 4.0;
        wide[2u * i] = low;
        wide[2u * i + 1u] = high;
        narrow[i] = uvec4(packHalf2x16(low.xy), packHalf2x16(low.zw), packHalf2x16(high.xy), packHalf2x16(high.zw));
    }
    barrier();
    SUM sum;
    coopMatLoad(sum, wide, 0u, MATRIX_N / 4u, gl_CooperativeMatrixLayoutRowMajor);
    LEFT left;
    coopMatLoad(left, narrow, 0u, TERM_QUADS, gl_CooperativeMatrixLayoutRowMajor);
    bool alike = sum.length() == ELEMENTS && left.length() == ELEMENTS;
    for (uint e = 0u; e < ELEMENTS; e++) {
        y[gl_SubgroupInvocationID * ELEMENTS + e] = alike ? uint(sum[e]) | uint(left[e]) << 16 : 0xffffffffu;
    }
}
