// Shared by the builds of a norm: the rows to normalize, x or, with RESIDUAL, x + residual. The build's own bindings
// continue from NEXT.
#include "counts.glsl"
#include "rows/held-rows.glsl"

INPUT_ROWS(1, x, QUAD)

#ifdef RESIDUAL
#define NEXT 3
INPUT_ROWS(2, residual, QUAD)

vec4 load_row(uint start, uint i, uint columns) {
    return load_x(start, i, columns) + load_residual(start, i, columns);
}
#else
#define NEXT 2

vec4 load_row(uint start, uint i, uint columns) {
    return load_x(start, i, columns);
}
#endif
