// Which texts a tile meets; from the scores of a block the integers of its weights, and what becomes of the blocks before. The
// shader has OWN keys of a query in each of its LANES invocations, own_key(j) the number in the block, of KEYS, of the j-th;
// value_exponent(key) of a row of values, NOT_FINITE or NOTHING if it has none; largest_of_lanes and sum_of_lanes over a query's
// invocations; UNROLLED before loops over OWN.

// What a tile's queries and a row's own meet in a text.
struct Met {
    // Whether a query of the tile is one of the text's, and whether the row's is.
    bool some;
    bool own;
    // The text's first key, and their number.
    uint first_key;
    uint keys;
    // The position of the row's query.
    int place;
    Sight of_some;
    Sight of_row;
    // Where the head's row of biases begins.
    uint table;
};

// Queries first .. last - 1 and, of these, the row's, in a text.
Met met(uint text, uint first, uint last, uint row) {
    uint begin = q_offsets[text];
    uint end = min(q_offsets[text + 1u], last);
    uint queries = q_offsets[text + 1u] - begin;
    uint first_key = kv_offsets[text / push.shared_by];
    uint keys = kv_offsets[text / push.shared_by + 1u] - first_key;
    uint start = max(first, begin);
    int first_place = place_of(start - begin, queries, keys);
    int place = place_of(first + row - begin, queries, keys);
    Sight of_some = sight_of_any(first_place, first_place + int(end - 1u - start), int(keys));
    bool own = first + row >= begin && first + row < end;
    uint head = text * gl_NumWorkGroups.y + gl_WorkGroupID.y;
    uint table = BIAS ? head % push.bias_rows * (2u * push.reach + 1u) : 0u;
    return Met(begin < end, own, first_key, keys, place, of_some, sight_of(place, int(keys)), table);
}

// The next block from key `at` on that a query of the tile sees.
uint seen_from(uint at, Sight some) {
    return WINDOW && int(at) >= some.leading ? max(at, uint(some.begin) / KEYS * KEYS) : at;
}

// What a query keeps of the blocks so far: the denominator, in units of 2^power, the power itself, whether NaN was met; the largest
// score, as `ordered` has it; what scores are relative to, 0 but where the largest lies beyond 2^20.
struct Kept {
    float total;
    int power;
    bool spoilt;
    int largest;
    float reference;
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

// Before any block.
Kept nothing_kept(float reference) {
    return Kept(0.0, NONE, false, NOTHING, reference);
}

// The bits of a number as an integer that is as large as the number is, and back.
int ordered(int bits) {
    return bits ^ ((bits >> 31) & 0x7fffffff);
}

// Of the texts that are met again the last, counted from 1.
shared uint met_again;

// Whether a text is met again, by the queries whose largest score lies beyond 2^20: they begin anew, with scores relative to that.
// Every invocation must call it, after its first barrier.
bool meets_again(uint text, Met own, bool again, inout Kept kept) {
    int largest = largest_of_lanes(kept.largest);
    if (again) {
        return false;
    }
    float score = intBitsToFloat(ordered(largest));
    if (own.own && largest != NOTHING && abs(score) > 1048576.0) {
        kept = nothing_kept(clamp(score, -3.40282347e38, 3.40282347e38));
        atomicMax(met_again, text + 1u);
    }
    barrier();
    return met_again == text + 1u;
}

// x 2^d, d <= 0; NaN and infinity stay, but of what comes before any block nothing does.
float shifted(float x, int d) {
    float found = d < -126 ? 0.0 : settled(x * power_of_two(d));
    return is_finite(x) || d < NONE / 2 ? found : x;
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

// Turns the scores of the block from the text's key `at` on into integers of weights, those of hidden keys into 0.
Added weigh(float scores[OWN], Met text, uint at, inout Kept kept, out int weights[OWN]) {
    // The weights e 2^n of visible keys; n of others is NONE.
    float e[OWN];
    int n[OWN];
    int block_power = NONE;
    int bad = 0;
    UNROLLED for (uint j = 0u; j < OWN; j++) {
        uint key = own_key(j);
        n[j] = NONE;
        e[j] = 1.0;
        if (text.own && at + key < text.keys && sees(text.of_row, int(at + key))) {
            float score = finished_score(scores[j], text.table, int(at + key) - text.place);
            // Negative infinity is a masked key.
            if (floatBitsToUint(score) != 0xff800000u) {
                weight_parts(score - kept.reference, e[j], n[j]);
                if (is_nan(score) || value_exponent(key) == NOT_FINITE) {
                    bad = 1;
                    n[j] = NONE;
                } else {
                    kept.largest = max(kept.largest, ordered(floatBitsToInt(score)));
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
