// How matrix-results.glsl passes results through shared memory. After subgroup-tiles.glsl; OUT_N and OUT_WIDTH are the columns
// of the result per workgroup and per subgroup.

// Results pass through shared memory: the columns of BESIDE subgroups one after another in float16, or, as accumulators have no
// bfloat16, the rows of BESIDE subgroups in float32.
#if STORED == FLOAT16
const uint OUT_QUADS = OUT_WIDTH / 8u;
const uint OUT_STRIDE = OUT_QUADS + 1u;
const uint RESULT = TILE_M * OUT_STRIDE;
#else
const uint OUT_QUADS = OUT_N / 4u;
const uint OUT_STRIDE = OUT_QUADS + 1u;
const uint RESULT = HEIGHT * OUT_STRIDE;
#endif
