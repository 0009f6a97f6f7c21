// How matrix-results.glsl passes results through shared memory. After subgroup-tiles.glsl; OUT_N and OUT_WIDTH are the columns
// of the result per workgroup and per subgroup, Y_UNIT the unit of its rows (units.glsl), WIDE whether it is float32 whatever is stored.

// Results pass through shared memory: the columns of BESIDE subgroups one after another in float16, or, as accumulators have no
// bfloat16, the rows of BESIDE subgroups in float32.
#if STORED == FLOAT16
#define IN_FLOATS WIDE
#else
#define IN_FLOATS true
#endif
// Elements of a quad in shared memory.
const uint IN_QUAD = IN_FLOATS ? 4u : 8u;
const uint OUT_QUADS = (IN_FLOATS ? OUT_N : OUT_WIDTH) / IN_QUAD;
const uint OUT_STRIDE = OUT_QUADS + 1u;
const uint RESULT = (IN_FLOATS ? HEIGHT : TILE_M) * OUT_STRIDE;
const uint RESULT_UNIT = Y_UNIT > IN_QUAD ? IN_QUAD : Y_UNIT;
const uint QUAD_UNITS = IN_QUAD / RESULT_UNIT;
// Units in which the results of a row are written, of which a quad has QUAD_UNITS.
const uint OUT_UNITS = OUT_QUADS * QUAD_UNITS;
