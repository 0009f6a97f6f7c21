// How matrix-results.glsl passes results through shared memory. After subgroup-tiles.glsl; OUT_N and OUT_WIDTH are the columns
// of the result per workgroup and per subgroup, WIDE whether it is float32 whatever is stored.

// Results pass through shared memory: the columns of BESIDE subgroups one after another in float16, or, as accumulators have no
// bfloat16, the rows of BESIDE subgroups in float32.
#if STORED == FLOAT16
#define IN_FLOATS WIDE
#else
#define IN_FLOATS true
#endif
const uint OUT_QUADS = IN_FLOATS ? OUT_N / 4u : OUT_WIDTH / 8u;
const uint OUT_STRIDE = OUT_QUADS + 1u;
const uint RESULT = (IN_FLOATS ? HEIGHT : TILE_M) * OUT_STRIDE;
