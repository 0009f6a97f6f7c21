// What the shaders on matrix cores have in common: extensions, and matrices of SIDE x SIDE elements.
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require

// The elements of operands, after stored.glsl those that are stored, those of sums, the terms that two matrices multiply, and
// the rows and columns of a product; a shader may define others before.
#ifndef ELEMENT
#if defined(BFLOAT16) && STORED == BFLOAT16
#extension GL_EXT_bfloat16 : require
#define ELEMENT bfloat16_t
#else
#define ELEMENT float16_t
#endif
#endif
#ifndef SUM_ELEMENT
#define SUM_ELEMENT float
#endif
#ifndef TERMS
#define TERMS 16
#endif
#ifndef SIDE
#define SIDE 16
#endif
// Sums, sums in float32 and rounded to float16, and the two operands of a product.
#define SUM coopmat<SUM_ELEMENT, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseAccumulator>
#define FLOATS coopmat<float, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseAccumulator>
#define HALF coopmat<float16_t, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseAccumulator>
#define LEFT coopmat<ELEMENT, gl_ScopeSubgroup, SIDE, TERMS, gl_MatrixUseA>
#define RIGHT coopmat<ELEMENT, gl_ScopeSubgroup, TERMS, SIDE, gl_MatrixUseB>
