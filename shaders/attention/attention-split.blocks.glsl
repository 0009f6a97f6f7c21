// The tile's queries and the blocks of keys and values of attention-split, split into shared memory; q, k, v, UNIT, HEAD_DIM, KEYS,
// INVOCATIONS, TILE and PARTS are the shader's.
#include "matrix/split.glsl"

// Groups of eight of a part of a head's row in matrices, of all parts, and of a row in shared memory, plus one so that rows start at
// different banks.
const uint PART_EIGHTS = SLICES * MATRIX_N / 8u;
const uint EIGHTS = PARTS * PART_EIGHTS;
const uint STRIDE = EIGHTS + 1u;
// Units of a head, and of four numbers.
const uint HEAD_UNITS = HEAD_DIM / UNIT;
const uint QUAD_UNITS = 4u / UNIT;
#define WHOLE (HEAD_DIM == 8u * EIGHTS)
FOURS_OF(q, UNIT, WHOLE)
FOURS_OF(k, UNIT, WHOLE)
FOURS_OF(v, UNIT, WHOLE)

// High and low parts of the block's keys, then of its values; before the loop, of the tile's queries.
const uint LOW = KEYS * STRIDE;
const uint VALUES = 2u * LOW > JOINED ? 2u * LOW : JOINED;
const uint LOW_QUERIES = TILE * STRIDE;
const uint BLOCKS = VALUES + 2u * LOW;
shared uvec4 tile[BLOCKS > 2u * LOW_QUERIES ? BLOCKS : 2u * LOW_QUERIES];
// The inverse of the factors of the block's keys and values, or NaN where sums must be plain, and of the queries.
shared float key_factors[KEYS];
shared float value_factors[KEYS];
shared float query_factors[TILE];
// The index after the first key of the last block with such a key or value.
shared uint tainted;

// The head, and its first quads of the operands.
uint head, q_column, k_column, v_column;

#ifdef PREPARED
#include "attention-split.prepared.glsl"
#else
#include "attention-split.fetched.glsl"
#endif
