// What the shaders on matrix cores have in common: extensions, and matrices of a shape that is chosen with the variant.
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require

// The elements of operands, after stored.glsl those that are stored, with their bytes, and those of sums; a shader may define
// others before.
#ifndef ELEMENT
#if defined(BFLOAT16) && STORED == BFLOAT16
#extension GL_EXT_bfloat16 : require
#define ELEMENT bfloat16_t
#else
#define ELEMENT float16_t
#endif
#endif
#ifndef ELEMENT_BYTES
#define ELEMENT_BYTES 2
#endif
#ifndef SUM_ELEMENT
#define SUM_ELEMENT float
#endif

// Rows and columns of a product, and the terms of its sums; a shader may define fixed ones before.
#ifndef MATRIX_M
layout(constant_id = 20) const uint MATRIX_M = 16;
layout(constant_id = 21) const uint MATRIX_N = 16;
layout(constant_id = 22) const uint MATRIX_K = 16;
#endif
// Quads in shared memory with a row's terms of a matrix, sixteen bytes each; of half a quad, the first half.
#define HALF_QUADS (MATRIX_K * ELEMENT_BYTES == 8u)
#define TERM_QUADS (HALF_QUADS ? 1u : MATRIX_K * ELEMENT_BYTES / 16u)
// Sums, sums in float32 and rounded to float16, and the two operands of a product.
#define SUM coopmat<SUM_ELEMENT, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>
#define FLOATS coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>
#define HALF coopmat<float16_t, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>
#define LEFT coopmat<ELEMENT, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA>
#define RIGHT coopmat<ELEMENT, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB>
