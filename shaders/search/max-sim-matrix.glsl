#version 460
// Computes: as max-sim.glsl in float16 on matrix cores, sums in float32.
// Grid: x = documents in groups of 16, continued along z, y = queries in groups of BESIDE. A workgroup meets one document after
// another, STAGED rows in shared memory at a time; its subgroups share queries, the parts of a query's rows, and
// documents' rows.
// Reduction order: a product along depth in steps of MATRIX_K; the rows of a query from its first.
// Assumes: depth a multiple of MATRIX_K and of 8, at most 128; full subgroups of 256 / SUBGROUPS invocations; BESIDE at most
// SUBGROUPS and 8.
//# # Without matrix cores plans run in float32.
//# stored = ["float16"]
//# made_of = { push = "TextPairs", constants = "PairTile" }
//# variants = [{ matrices = "f16_f32", needs = ["float16", "storage16"], when = ["k % 16", "k <= 128", "subgroup_size <= 64"] }]
#include "stored.glsl"
#include "matrix/cooperative-matrix.glsl"
#include "product/text-pairs.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DEPTH = 128;
layout(constant_id = 1) const uint SUBGROUPS = 8;
// Queries side by side in a workgroup.
layout(constant_id = 2) const uint BESIDE = 1;

// Eight elements each.
layout(std430, binding = 0) readonly buffer Queries { uvec4 queries[]; };
layout(std430, binding = 1) readonly buffer Documents { uvec4 documents[]; };

#define EACH 16u
#define STAGED 64u
const uint STEPS = DEPTH / MATRIX_K;
const uint ROW_QUADS = DEPTH / 8u;
// Lines in shared memory have a quad more, so that they start at different banks.
const uint ROW_STRIDE = ROW_QUADS + 1u;
const uint LOADS = (STAGED * ROW_QUADS + 255u) / 256u;
// Parts of a query's rows, each of other subgroups: as many as keep largest products in shared memory few.
const uint PARTS = SUBGROUPS / BESIDE > TILE / MATRIX_M ? TILE / MATRIX_M : SUBGROUPS / BESIDE;
const uint GROUPS = SUBGROUPS / (BESIDE * PARTS);
// Matrices of a subgroup's rows of a query, and their largest products in shared memory.
const uint BLOCKS = TILE / MATRIX_M / PARTS;
const uint SUM_STRIDE = MATRIX_N / 4u + 1u;
const uint SUMS = BLOCKS * MATRIX_M * SUM_STRIDE;
const uint ROWS = STAGED * ROW_STRIDE;
// Rows of a query or of documents, then largest products.
shared uvec4 work[ROWS > SUBGROUPS * SUMS ? ROWS : SUBGROUPS * SUMS];
// Of each row of the queries.
shared float largest[BESIDE * TILE];
shared float totals[BESIDE * EACH];

LEFT query_rows[BLOCKS][STEPS];
FLOATS best[BLOCKS];
// The documents' rows that come next.
uvec4 next[LOADS];

// The subgroup's query among those of the workgroup, its part, and its share of documents' rows.
uint own_query() {
    return gl_SubgroupID % BESIDE;
}

uint own_part() {
    return gl_SubgroupID / BESIDE % PARTS;
}

uint own_group() {
    return gl_SubgroupID / (BESIDE * PARTS);
}

// Reads rows `first` .. `first` + TILE - 1 of a query that ends at `end`; zeros after its last.
void read_query(uint number, uint first, uint end) {
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < TILE * ROW_QUADS; i += 256u) {
        uint row = first + i / ROW_QUADS;
        uvec4 quad = queries[(row < end ? row : 0u) * ROW_QUADS + i % ROW_QUADS];
        work[i / ROW_QUADS * ROW_STRIDE + i % ROW_QUADS] = row < end ? quad : uvec4(0u);
    }
    barrier();
    if (own_query() == number) {
        [[unroll]] for (uint b = 0u; b < BLOCKS; b++) {
            [[unroll]] for (uint k = 0u; k < STEPS; k++) {
                uint at = (own_part() * BLOCKS + b) * MATRIX_M * ROW_STRIDE + k * TERM_QUADS;
                coopMatLoad(query_rows[b][k], work, at, ROW_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            }
        }
    }
}

// Begins to read STAGED rows of a document that ends at `end`, its last one again in place of those after it, which change no
// maximum.
void fetch(uint row, uint end) {
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint slot = min(gl_LocalInvocationIndex + 256u * i, STAGED * ROW_QUADS - 1u);
        next[i] = documents[min(row + slot / ROW_QUADS, end - 1u) * ROW_QUADS + slot % ROW_QUADS];
    }
}

// The end of the first of some documents that goes beyond a row.
uint end_after(uint row, uint document, uint last_document) {
    while (document + 1u < last_document && document_starts[document + 1u] <= row) {
        document++;
    }
    return max(document_starts[document + 1u], 1u);
}

void store() {
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint slot = min(gl_LocalInvocationIndex + 256u * i, STAGED * ROW_QUADS - 1u);
        work[slot / ROW_QUADS * ROW_STRIDE + slot % ROW_QUADS] = next[i];
    }
}

// Multiplies with the staged rows, so many of which are of the document.
void meet(uint rows) {
    for (uint first = own_group() * MATRIX_N; first < rows; first += GROUPS * MATRIX_N) {
        FLOATS sum[BLOCKS];
        [[unroll]] for (uint b = 0u; b < BLOCKS; b++) {
            sum[b] = FLOATS(0.0);
        }
        [[unroll]] for (uint k = 0u; k < STEPS; k++) {
            RIGHT columns;
            uint at = first * ROW_STRIDE + k * TERM_QUADS;
            coopMatLoad(columns, work, at, ROW_STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint b = 0u; b < BLOCKS; b++) {
                sum[b] = coopMatMulAdd(query_rows[b][k], columns, sum[b]);
            }
        }
        [[unroll]] for (uint b = 0u; b < BLOCKS; b++) {
            [[unroll]] for (uint e = 0u; e < best[b].length(); e++) {
                best[b][e] = larger(best[b][e], sum[b][e]);
            }
        }
    }
}

// The largest product of each of the queries' rows, over columns and the subgroups that share the row.
void join() {
    uint me = gl_LocalInvocationIndex;
    barrier();
    [[unroll]] for (uint b = 0u; b < BLOCKS; b++) {
        uint at = gl_SubgroupID * SUMS + b * MATRIX_M * SUM_STRIDE;
        coopMatStore(best[b], work, at, SUM_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    }
    barrier();
    if (me < BESIDE * TILE) {
        uint number = me / TILE, row = me % TILE;
        float most = NONE;
        for (uint group = 0u; group < GROUPS; group++) {
            uint subgroup = number + BESIDE * (row / (BLOCKS * MATRIX_M) + PARTS * group);
            uint at = subgroup * SUMS + row % (BLOCKS * MATRIX_M) * SUM_STRIDE;
            [[unroll]] for (uint c = 0u; c < MATRIX_N / 4u; c++) {
                vec4 quad = uintBitsToFloat(work[at + c]);
                most = larger(larger(larger(larger(most, quad.x), quad.y), quad.z), quad.w);
            }
        }
        largest[me] = most;
    }
    barrier();
}

void main() {
    uint me = gl_LocalInvocationIndex;
    uint group = gl_WorkGroupID.z * 65535u + gl_WorkGroupID.x, first_query = gl_WorkGroupID.y * BESIDE;
    uint first_document = group * EACH, last_document = min(first_document + EACH, push.documents);
    if (first_document >= last_document) {
        return;
    }
    // The longest of the workgroup's queries.
    uint most = 0u;
    for (uint query = first_query; query < min(first_query + BESIDE, push.queries); query++) {
        most = max(most, query_starts[query + 1u] - query_starts[query]);
    }
    // Invocation me of the first BESIDE adds the largest products of query me.
    uint query = first_query + me;
    bool adds = me < BESIDE && query < push.queries;
    uint own_rows = adds ? query_starts[query + 1u] - query_starts[query] : 0u;
    // Of no rows the sum is 0.
    for (uint tile = 0u; tile < max(most, 1u); tile += TILE) {
        for (uint number = 0u; number < BESIDE; number++) {
            uint own = min(first_query + number, push.queries - 1u);
            read_query(number, query_starts[own] + tile, query_starts[own + 1u]);
        }
        uint next_row = document_starts[first_document];
        fetch(next_row, end_after(next_row, first_document, last_document));
        for (uint document = first_document; document < last_document; document++) {
            uint start = document_starts[document], end = document_starts[document + 1u];
            [[unroll]] for (uint b = 0u; b < BLOCKS; b++) {
                best[b] = FLOATS(NONE);
            }
            for (uint row = start; row < end; row += STAGED) {
                barrier();
                store();
                barrier();
                // What follows: more of the document, or the next one that has rows.
                next_row = min(row + STAGED, end);
                fetch(next_row, end_after(next_row, document, last_document));
                meet(min(end - row, STAGED));
            }
            join();
            if (adds) {
                uint total = me * EACH + document - first_document;
                float sum = tile == 0u ? 0.0 : totals[total];
                [[unroll]] for (uint i = 0u; i < TILE; i++) {
                    float most_of_row = largest[me * TILE + i];
                    sum += tile + i < own_rows ? most_of_row : 0.0;
                }
                totals[total] = sum;
                y[query * push.documents + document] = start == end ? EMPTY : sum;
            }
        }
    }
}
