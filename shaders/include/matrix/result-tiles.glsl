// How matrix-results.glsl passes results through shared memory. After subgroup-tiles.glsl; OUT_N and OUT_WIDTH are the columns
// of the result per workgroup and per subgroup, Y_UNIT the unit of its rows (units.glsl).

// Results pass through shared memory: the columns of BESIDE subgroups one after another in float16, or, as accumulators have no
// bfloat16, the rows of BESIDE subgroups in float32.
#if STORED == FLOAT16
const uint OUT_QUADS = OUT_WIDTH / 8u;
const uint OUT_STRIDE = OUT_QUADS + 1u;
const uint RESULT = TILE_M * OUT_STRIDE;
#define RESULT_UNIT Y_UNIT
const uint QUAD_UNITS = 8u / RESULT_UNIT;
#else
const uint OUT_QUADS = OUT_N / 4u;
const uint OUT_STRIDE = OUT_QUADS + 1u;
const uint RESULT = HEIGHT * OUT_STRIDE;
const uint RESULT_UNIT = Y_UNIT > 4u ? 4u : Y_UNIT;
const uint QUAD_UNITS = 4u / RESULT_UNIT;
#endif
// Units in which the results of a row are written, of which a quad has QUAD_UNITS.
const uint OUT_UNITS = OUT_QUADS * QUAD_UNITS;
