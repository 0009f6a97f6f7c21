// How matrix-results.glsl passes results through shared memory. After subgroup-tiles.glsl; OUT_N and OUT_WIDTH are the columns
// of the result per workgroup and per subgroup, WIDE whether it is float32 whatever is stored.

// Results pass through shared memory: the columns of BESIDE subgroups one after another in float16, or, as accumulators have no
// bfloat16, the rows of BESIDE subgroups in float32.
const bool IN_HALVES = STORED == FLOAT16 && !WIDE;
const uint OUT_QUADS = IN_HALVES ? OUT_WIDTH / 8u : OUT_N / 4u;
const uint OUT_STRIDE = OUT_QUADS + 1u;
const uint RESULT = (IN_HALVES ? TILE_M : HEIGHT) * OUT_STRIDE;
