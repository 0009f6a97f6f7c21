#version 460
// Computes: y[q, d] = sum over the rows t of query q of max over the rows u of document d of queries[t] . documents[u];
// EMPTY for a document without rows, else 0 for a query without.
// Grid: x = documents, continued along z, y = queries; 16 x 16 invocations compute 32 x 64 products at a time.
// Reduction order: a product along depth, one fma per step, from zero; the rows of a query from its first.
// Assumes: fewer than 2^32 elements.
//# made_of = { push = "TextPairs", constants = "PairTile" }
#extension GL_EXT_control_flow_attributes : require
#include "numbers/terms.glsl"
#include "product/text-pairs.glsl"

layout(local_size_x = 256) in;
// Whether vectors start at multiples of four elements.
layout(constant_id = 0) const bool VECTOR = false;

layout(std430, binding = 0) readonly buffer Queries { float queries[]; };
layout(std430, binding = 0) readonly buffer QueryQuads { vec4 queries_4[]; };
layout(std430, binding = 1) readonly buffer Documents { float documents[]; };
layout(std430, binding = 1) readonly buffer DocumentQuads { vec4 documents_4[]; };

const uint TILE_M = TILE;
const uint TILE_N = 64u;
const uint TILE_K = 32u;
#include "product/product-tiles.glsl"
// The largest products of each row of the tile, per invocation that has some.
shared float largest[TILE * 16u];

// Terms k .. k + 3 of a row before `end`, zeros elsewhere.
#define LOAD(NAME, ROWS_OF)                                                                                            \
    vec4 NAME(uint row, uint k, uint end) {                                                                            \
        vec4 quad = vec4(0.0);                                                                                         \
        if (row < end && VECTOR) {                                                                                     \
            quad = k < push.depth ? ROWS_OF##_4[(row * push.depth + k) / 4u] : quad;                                   \
        } else if (row < end) {                                                                                        \
            [[unroll]] for (uint i = 0u; i < 4u; i++) {                                                                \
                quad[i] = k + i < push.depth ? ROWS_OF[row * push.depth + k + i] : 0.0;                                \
            }                                                                                                          \
        }                                                                                                              \
        return quad;                                                                                                   \
    }
LOAD(load_query, queries)
LOAD(load_document, documents)

void main() {
    uint me = gl_LocalInvocationIndex, tx = me % 16u, ty = me / 16u;
    uint query = gl_WorkGroupID.y, document = gl_WorkGroupID.z * 65535u + gl_WorkGroupID.x;
    if (document >= push.documents) {
        return;
    }
    uint query_end = query_starts[query + 1u], first = document_starts[document], end = document_starts[document + 1u];
    float total = 0.0;
    for (uint row = query_starts[query]; row < query_end; row += TILE) {
        float best[ROWS];
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            best[i] = NONE;
        }
        for (uint column = first; column < end; column += TILE_N) {
            begin_sums();
            for (uint k = 0u; k < push.depth; k += TILE_K) {
                barrier();
                [[unroll]] for (uint i = 0u; i < A_LOADS; i++) {
                    uint at = me + 256u * i;
                    a_tile[at / QUADS * STRIDE + at % QUADS] = load_query(row + at / QUADS, k + 4u * (at % QUADS), query_end);
                }
                [[unroll]] for (uint i = 0u; i < B_LOADS; i++) {
                    uint at = me + 256u * i;
                    b_tile[at / QUADS * STRIDE + at % QUADS] = load_document(column + at / QUADS, k + 4u * (at % QUADS), end);
                }
                barrier();
                multiply_tiles(tx, ty);
            }
            [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
                    best[i] = column + tx + 16u * j < end ? larger(best[i], sum[i * COLUMNS + j]) : best[i];
                }
            }
        }
        barrier();
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            largest[(ty + 16u * i) * 16u + tx] = best[i];
        }
        barrier();
        for (uint reach = 8u; reach > 0u; reach /= 2u) {
            [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                uint slot = (ty + 16u * i) * 16u + tx;
                if (tx < reach) {
                    largest[slot] = larger(largest[slot], largest[slot + reach]);
                }
            }
            barrier();
        }
        for (uint i = 0u; i < min(TILE, query_end - row); i++) {
            total += largest[i * 16u];
        }
    }
    if (me == 0u) {
        y[query * push.documents + document] = first == end ? EMPTY : total;
    }
}
