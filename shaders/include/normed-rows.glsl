// Shared by the builds of a norm: the rows to normalize, x or, with RESIDUAL, x + residual. The build's own bindings
// continue from NEXT.
#include "counts.glsl"
#include "held-rows.glsl"

layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer X4 { QUAD x_4[]; };
LOAD(load_x, x, x_4)

#ifdef RESIDUAL
#define NEXT 3
layout(std430, binding = 2) readonly buffer Residual { float residual[]; };
layout(std430, binding = 2) readonly buffer Residual4 { QUAD residual_4[]; };
LOAD(load_residual, residual, residual_4)

vec4 load_row(uint start, uint i, uint columns) {
    return load_x(start, i, columns) + load_residual(start, i, columns);
}
#else
#define NEXT 2

vec4 load_row(uint start, uint i, uint columns) {
    return load_x(start, i, columns);
}
#endif
