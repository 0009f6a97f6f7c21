// From the scores of a block the integers of its weights, and what becomes of the blocks before. The shader has OWN keys of a
// query in each of its LANES invocations, own_key(j) the number in the block of the j-th; value_exponent(key) of a row of values,
// NOT_FINITE or NOTHING if it has none; largest_of_lanes and sum_of_lanes over a query's invocations; UNROLLED before loops over OWN.

// What a query keeps of the blocks so far: the denominator, in units of 2^power, the power itself, whether NaN was met.
struct Kept {
    float total;
    int power;
    bool spoilt;
};

// What a block adds: the exponent of the numerator's sums of integers, in units of 2^power, and the power of two, at most 0, by
// which what was kept shrinks before. SAME where no key is visible, so that nothing changes.
struct Added {
    int exponent;
    int shrink;
};

const int SAME = 1;
// Below any power of two of a weight.
const int NONE = -(1 << 30);

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

// Turns scores into integers of weights, those of hidden keys into 0. The block begins at the text's key `at` and has so many
// `keys`; `own` tells whether the invocation's query is one of the text's.
Added weigh(float scores[OWN], bool own, Sight mine, uint at, uint keys, int place, uint table, inout Kept kept, out int weights[OWN]) {
    // The weights e 2^n of visible keys; n of others is NONE.
    float e[OWN];
    int n[OWN];
    int block_power = NONE;
    int bad = 0;
    UNROLLED for (uint j = 0u; j < OWN; j++) {
        uint key = own_key(j);
        n[j] = NONE;
        e[j] = 1.0;
        if (own && key < keys && sees(mine, int(at + key))) {
            float score = finished_score(scores[j], table, int(at + key) - place);
            // Negative infinity is a masked key.
            if (floatBitsToUint(score) != 0xff800000u) {
                weight_parts(score, e[j], n[j]);
                if (is_nan(score) || value_exponent(key) == NOT_FINITE) {
                    bad = 1;
                    n[j] = NONE;
                }
                block_power = max(block_power, n[j]);
            }
        }
    }
    block_power = largest_of_lanes(block_power);
    kept.spoilt = largest_of_lanes(bad) > 0 || kept.spoilt;

    // The denominator in fixed point, and the exponent of the numerator's integers.
    uvec2 sum = uvec2(0u);
    int exponent = NONE;
    UNROLLED for (uint j = 0u; j < OWN; j++) {
        int value = value_exponent(own_key(j));
        if (n[j] != NONE) {
            add(sum, uvec2(n[j] - block_power < -33 ? 0u : fixed_point(e[j], n[j] - block_power), 0u));
            if (value != NOTHING) {
                exponent = max(exponent, n[j] + value + (int(floatBitsToUint(e[j]) + 65793u) >> 23) - 127);
            }
        }
    }
    sum = sum_of_lanes(sum);
    exponent = largest_of_lanes(exponent);
    UNROLLED for (uint j = 0u; j < OWN; j++) {
        int value = value_exponent(own_key(j));
        weights[j] = 0;
        if (n[j] != NONE && value != NOTHING) {
            weights[j] = scaled_integer(e[j], n[j] + value + 22 - exponent);
        }
    }
    if (block_power == NONE) {
        return Added(0, SAME);
    }
    int power = max(kept.power, block_power);
    int shrink = kept.power - power;
    kept.total = shifted(kept.total, shrink) + shifted(assembled(sum, -30), block_power - power);
    kept.power = power;
    return Added(exponent - 44 - power, shrink);
}

// What becomes of an element of the numerator.
float weighed(float before, float product, int shrink) {
    return shrink == SAME ? before : shifted(before, shrink) + settled(product);
}

// The result from the numerator and the inverse of the denominator.
float quotient(float numerator, float inverse, Kept kept) {
    float found = kept.power == NONE ? 0.0 : PRODUCT(numerator, inverse);
    return kept.spoilt ? uintBitsToFloat(0x7fc00000u) : canonical(found);
}
