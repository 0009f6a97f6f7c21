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

void add(inout uvec2 sum, uvec2 more) {
    sum.x += more.x;
    sum.y += more.y + (sum.x < more.x ? 1u : 0u);
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

// x 2^d, d <= 0; NaN and infinity stay.
float shifted(float x, int d) {
    float found = d < -126 ? 0.0 : settled(x * power_of_two(d));
    return is_finite(x) ? found : x;
}

// e^x = e 2^n, as x within 2^20 of 0.
void weight_parts(float x, out float e, out int power) {
    float within = clamp(x, -1048576.0, 1048576.0);
    EXPONENTIAL_PARTS(within)
    e = y;
    power = integer(n);
}

// round(e 2^(d + 30)), d <= 0.
uint fixed_point(float e, int d) {
    uint bits = floatBitsToUint(e);
    uint mantissa = (bits & 0x007fffffu) | 0x00800000u;
    int places = clamp(120 - int(bits >> 23) - d, -7, 25);
    if (places <= 0) {
        return mantissa << uint(-places);
    }
    return (mantissa + ((1u << uint(places)) >> 1) - 1u + ((mantissa >> uint(places)) & 1u)) >> uint(places);
}

// The product of rows with these exponents, from its parts.
float product_of(ivec3 parts, int a, int b) {
    uvec2 sum = uvec2(0u);
    add_sums(sum, parts);
    float found = settled(assembled(sum, a + b - 44));
    return a == NOT_FINITE || b == NOT_FINITE ? uintBitsToFloat(0x7fc00000u) : found;
}

// A score from its products: scaled, capped, and with the bias of a key's distance, in a row of the table from `table` on.
float finished_score(float score, uint table, int distance) {
    score = PRODUCT(settled(score), settled(push.scale));
    if (SOFT_CAP > 0.0) {
        score = PRODUCT(SOFT_CAP, hyperbolic_tangent(divided(score, SOFT_CAP)));
    }
#ifndef DISTANCES
    if (BIAS) {
        int reach = int(push.reach);
        score += settled(bias[table + uint(clamp(distance, -reach, reach) + reach)]);
    }
#endif
    return score;
}
