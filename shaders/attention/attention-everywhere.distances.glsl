// Scores by distance, as in attention.distances.glsl, as exact sums of integers. Rows of `distances` have exponents of their own
// for each of a and b and each head of keys.
layout(std430, binding = 6) readonly buffer Distances { float distances[]; };

// First columns of a and b; none for the largest integer.
layout(constant_id = 9) const uint A_COLUMN = 0;
layout(constant_id = 10) const uint B_COLUMN = 0;
layout(constant_id = 11) const uint DISTANCE_COLUMNS = 64;

// Distances between the tile's queries and a block's keys: that of key j from row i has the index j - i + QUERIES - 1.
const uint APART = QUERIES + KEYS - 1u;
// Columns of rows by distance that are in shared memory at once, in place of weights.
const uint PART = 16u;
const uint PART_STRIDE = PART + 1u;
shared int far_most[APART];
shared uint far_largest[APART];

// The first element of a row by distance, `first` of the first key from the first query.
uint far_row(int first, uint index, uint column) {
    int reach = int(push.reach);
    int far = clamp(first + int(index) - int(QUERIES - 1u), -reach, reach);
    return uint(far + reach) * DISTANCE_COLUMNS + gl_WorkGroupID.y / push.group * HEAD_DIM + column;
}

// Adds to the scores of this invocation's query and keys the products of the query, or of the keys, with the rows by distance.
// `rows`: the first query and their number, the first key and their number.
void add_distances(inout float scores[8], int first, uint column, bool by_query, uvec4 rows) {
    uint row = gl_LocalInvocationIndex / LANES;
    uint lane = gl_LocalInvocationIndex % LANES;
    barrier();
    if (gl_LocalInvocationIndex < APART) {
        far_most[gl_LocalInvocationIndex] = NOTHING;
        far_largest[gl_LocalInvocationIndex] = 0u;
    }
    barrier();
    uint own = gl_LocalInvocationIndex / 2u;
    if (own < APART) {
        int own_most = NOTHING;
        uint own_largest = 0u;
        uint start = far_row(first, own, column);
        for (uint four = gl_LocalInvocationIndex % 2u; four < HEAD_DIM; four += 8u) {
            [[unroll]] for (uint i = 0u; i < 4u; i++) {
                float number = distances[start + min(four + 2u * i, HEAD_DIM - 1u)];
                own_most = max(own_most, measure(number, 0));
                own_largest = max(own_largest, floatBitsToUint(number) & 0x7fffffffu);
            }
        }
        atomicMax(far_most[own], own_most);
        atomicMax(far_largest[own], own_largest);
    }
    ivec3 parts[8];
    [[unroll]] for (uint j = 0u; j < 8u; j++) {
        parts[j] = ivec3(0);
    }
    for (uint chunk = 0u; chunk < CHUNKS; chunk++) {
        barrier();
        if (by_query) {
            stage_q(rows.x, rows.y, push.q_stride, push.q_column + gl_WorkGroupID.y * HEAD_DIM, 0u, chunk);
        } else {
            uint k_column = push.k_column + gl_WorkGroupID.y / push.group * HEAD_DIM;
            stage_k(rows.z, rows.w, push.k_stride, k_column, OF_KEYS, chunk);
        }
        for (uint part = 0u; part < 2u; part++) {
            barrier();
            uint place = gl_LocalInvocationIndex % PART;
            uint d = 32u * chunk + PART * part + place;
            [[unroll]] for (uint turn = 0u; turn < (APART + 15u) / 16u; turn++) {
                uint index = gl_LocalInvocationIndex / PART + 16u * turn;
                if (index < APART) {
                    int exponent = row_exponent(far_most[index], far_largest[index]);
                    bool there = d < HEAD_DIM && exponent != NOT_FINITE;
                    float number = distances[far_row(first, index, column) + min(d, HEAD_DIM - 1u)];
                    weights[index * PART_STRIDE + place] = there ? halves(scaled_integer(number, 22 - exponent)) : 0;
                }
            }
            barrier();
            for (uint four = 0u; four < PART; four += 4u) {
                [[unroll]] for (uint step = 0u; step < 4u; step++) {
                    uint at = PART * part + four + step;
                    int query = query_tile[row * STRIDE + at];
                    [[unroll]] for (uint j = 0u; j < 8u; j++) {
                        uint key = lane + LANES * j;
                        int with = by_query ? query : key_tile[key * STRIDE + at];
                        add_product(with, weights[(key + QUERIES - 1u - row) * PART_STRIDE + four + step], parts[j]);
                    }
                }
            }
        }
    }
    [[unroll]] for (uint j = 0u; j < 8u; j++) {
        uint key = lane + LANES * j;
        uint index = key + QUERIES - 1u - row;
        int of_distance = row_exponent(far_most[index], far_largest[index]);
        scores[j] += product_of(parts[j], exponent_at(by_query ? row : OF_KEYS + key), of_distance);
    }
}

// The same for both.
void add_distances(inout float scores[8], int first, uvec4 rows) {
    if (A_COLUMN != 0xffffffffu) {
        add_distances(scores, first, A_COLUMN, true, rows);
    }
    if (B_COLUMN != 0xffffffffu) {
        add_distances(scores, first, B_COLUMN, false, rows);
    }
}
