// Rows of a tile as integers, and what the lanes of a query share; after the shared memory of attention-everywhere.glsl.
shared int lanes[256];
shared uvec2 lane_sums[256];

// The largest of the lanes of a query. Must be called by every invocation.
int largest_of_lanes(int value) {
    barrier();
    lanes[gl_LocalInvocationIndex] = value;
    barrier();
    uint first = gl_LocalInvocationIndex / LANES * LANES;
    [[unroll]] for (uint i = 0u; i < LANES; i++) {
        value = max(value, lanes[first + i]);
    }
    return value;
}

uvec2 sum_of_lanes(uvec2 value) {
    barrier();
    lane_sums[gl_LocalInvocationIndex] = value;
    barrier();
    uint first = gl_LocalInvocationIndex / LANES * LANES;
    uvec2 sum = uvec2(0u);
    [[unroll]] for (uint i = 0u; i < LANES; i++) {
        add(sum, lane_sums[first + i]);
    }
    return sum;
}

void begin_measures(uint first, uint count) {
    for (uint i = gl_LocalInvocationIndex; i < count; i += 256u) {
        most[first + i] = NOTHING;
        largest[first + i] = 0u;
    }
}

// Declares MEASURES: measures `count` rows of NAME, columns `column` .. column + HEAD_DIM - 1 of `row` on, by so many invocations
// each.
#define MEASURE(MEASURES, NAME, PER_ROW)                                                                               \
    void MEASURES(uint row, uint count, uint stride, uint column, uint place) {                                        \
        uint own = gl_LocalInvocationIndex / PER_ROW;                                                                  \
        if (own < count) {                                                                                             \
            int own_most = NOTHING;                                                                                    \
            uint own_largest = 0u;                                                                                     \
            for (uint four = gl_LocalInvocationIndex % PER_ROW; four < HEAD_DIM; four += 4u * PER_ROW) {               \
                [[unroll]] for (uint i = 0u; i < 4u; i++) {                                                            \
                    uint d = min(four + PER_ROW * i, HEAD_DIM - 1u);                                                   \
                    float number = NAME[(row + own) * stride + column + d];                                            \
                    own_most = max(own_most, measure(number, 0));                                                      \
                    own_largest = max(own_largest, floatBitsToUint(number) & 0x7fffffffu);                             \
                }                                                                                                      \
            }                                                                                                          \
            atomicMax(most[place + own], own_most);                                                                    \
            atomicMax(largest[place + own], own_largest);                                                              \
        }                                                                                                              \
    }

MEASURE(measure_q, q, 8u)
MEASURE(measure_k, k, 4u)
MEASURE(measure_v, v, 4u)

int exponent_at(uint place) {
    return row_exponent(most[place], largest[place]);
}

// Declares STAGES: columns 32 chunk .. of `count` rows of NAME as halves of integers in TILE; zeros past the last, and of rows
// that are not finite.
#define STAGE(STAGES, NAME, TILE, ROWS)                                                                                \
    void STAGES(uint row, uint count, uint stride, uint column, uint place, uint chunk) {                              \
        uint d = 32u * chunk + gl_LocalInvocationIndex % 32u;                                                          \
        [[unroll]] for (uint turn = 0u; turn < ROWS / 8u; turn++) {                                                    \
            uint own = gl_LocalInvocationIndex / 32u + 8u * turn;                                                      \
            int number = 0;                                                                                            \
            if (own < count && d < HEAD_DIM) {                                                                         \
                int exponent = exponent_at(place + own);                                                               \
                if (exponent != NOT_FINITE) {                                                                          \
                    number = halves(scaled_integer(NAME[(row + own) * stride + column + d], 22 - exponent));           \
                }                                                                                                      \
            }                                                                                                          \
            TILE[own * STRIDE + gl_LocalInvocationIndex % 32u] = number;                                               \
        }                                                                                                              \
    }

STAGE(stage_q, q, query_tile, QUERIES)
STAGE(stage_k, k, key_tile, KEYS)
STAGE(stage_v, v, key_tile, KEYS)

// The product of rows with these exponents, from its parts.
float product_of(ivec3 parts, int a, int b) {
    uvec2 sum = uvec2(0u);
    add_sums(sum, parts);
    float found = settled(assembled(sum, a + b - 44));
    return a == NOT_FINITE || b == NOT_FINITE ? uintBitsToFloat(0x7fc00000u) : found;
}

// Of the row of values of a block's key.
int value_exponent(uint key) {
    int exponent = exponent_at(OF_VALUES + key);
    return most[OF_VALUES + key] == NOTHING && exponent != NOT_FINITE ? NOTHING : exponent;
}
