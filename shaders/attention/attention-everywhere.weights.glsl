// Which texts a tile meets; from the scores of a block the integers of its weights, and what becomes of the blocks before. Nothing is
// computed under a condition, so that the keys of an invocation are computed together. The shader has OWN keys of a query in each of
// its LANES invocations, own_key(j) the number in the block, of KEYS, of the j-th; value_exponent(key) of a row of values, NOT_FINITE or
// NOTHING if it has none; largest_of_lanes and sum_of_lanes over a query's invocations; UNROLLED before loops over OWN.

// What a row's query meets in its text.
struct Met {
    // Whether there is a query.
    bool own;
    // The text, its first key, and their number.
    uint text;
    uint first_key;
    uint keys;
    // The position of the query.
    int place;
    Sight of_row;
    // Where the head's row of biases begins.
    uint table;
};

// The first key of a text.
uint first_key_of(uint text) {
    return kv_offsets[text / push.shared_by];
}

uint keys_of(uint text) {
    return kv_offsets[text / push.shared_by + 1u] - first_key_of(text);
}

// The row's query, one of first .. last - 1, the first of which is one of the text `first_text`.
Met met(uint first_text, uint last, uint query) {
    uint text = first_text;
    while (query < last && q_offsets[text + 1u] <= query) {
        text++;
    }
    uint begin = q_offsets[text];
    uint keys = keys_of(text);
    int place = place_of(query - begin, q_offsets[text + 1u] - begin, keys);
    uint head = text * gl_NumWorkGroups.y + gl_WorkGroupID.y;
    uint table = BIAS ? head % push.bias_rows * (2u * push.reach + 1u) : 0u;
    return Met(query < last, text, first_key_of(text), keys, place, sight_of(place, int(keys)), table);
}

// Of a text: at least the keys that queries first .. last - 1 see.
Sight sight_of_tile(uint text, uint first, uint last) {
    uint begin = q_offsets[text], queries = q_offsets[text + 1u] - begin, keys = keys_of(text);
    int from = place_of(max(first, begin) - begin, queries, keys);
    int to = place_of(min(last, begin + queries) - 1u - begin, queries, keys);
    return sight_of_any(from, to, int(keys));
}

// Texts that are met together, `first` .. end - 1: their first key, how many they have, and at least those of them that queries of the
// tile see.
struct Together {
    uint first;
    uint end;
    uint begin;
    uint keys;
    Sight some;
};

// From a text on: several where their keys are no more than a block's in all, so that each has its one block within it. Queries are
// first .. last - 1.
Together met_together(uint text, uint first, uint last) {
    uint end = text + 1u;
    uint begin = first_key_of(text);
#ifndef DISTANCES
    while (end < counts.texts && q_offsets[end] < last && first_key_of(end) + keys_of(end) - begin <= KEYS) {
        end++;
    }
#endif
    uint keys = first_key_of(end - 1u) + keys_of(end - 1u) - begin;
    return Together(text, end, begin, keys, end - text == 1u ? sight_of_tile(text, first, last) : Sight(0, 0, int(keys)));
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
bool meets_again(uint text, bool own, bool again, inout Kept kept) {
    int largest = largest_of_lanes(kept.largest);
    if (again) {
        return false;
    }
    float score = intBitsToFloat(ordered(largest));
    if (own && largest != NOTHING && abs(score) > 1048576.0) {
        kept = nothing_kept(clamp(score, -3.40282347e38, 3.40282347e38));
        atomicMax(met_again, text + 1u);
    }
    barrier();
    return met_again == text + 1u;
}

// Whether the row's query meets these texts, in a second time with scores relative to its largest.
bool meets(Met own, Together texts, bool again, Kept kept) {
    return own.own && own.text >= texts.first && own.text < texts.end && (!again || kept.reference != 0.0);
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

// round(e 2^(d + 30)), d <= 0, ties to even, of e in 0.5 .. 2.
uint fixed_point(float e, int d) {
    uint bits = floatBitsToUint(e);
    uint mantissa = ((bits & 0x007fffffu) | 0x00800000u) << 7u;
    // From 32 places on less than half is left.
    int places = 127 - int(bits >> 23) - d;
    uint within = uint(min(places, 31));
    uint half_place = places > 7 ? (1u << (within - 1u)) - 1u + ((mantissa >> within) & 1u) : 0u;
    return places > 31 ? 0u : (mantissa + half_place) >> within;
}

// round(e 2^shift), ties to even, below 2^24, of e in 0.5 .. 2.
int weight_integer(float e, int shift) {
    uint bits = floatBitsToUint(e);
    int mantissa = int((bits & 0x007fffffu) | 0x00800000u);
    int places = clamp(150 - int(bits >> 23) - shift, 0, 25);
    int half_place = places > 0 ? (1 << (places - 1)) - 1 + ((mantissa >> places) & 1) : 0;
    return (mantissa + half_place) >> places;
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

// Turns the scores of the block of keys from `block` on into integers of weights; those of hidden keys, and of all if the row's
// query is not `own`, into 0.
Added weigh(float scores[OWN], Met text, bool own, uint block, inout Kept kept, out int weights[OWN]) {
    // The weights e 2^n of visible keys; n of others is NONE.
    float e[OWN];
    int n[OWN];
    int block_power = NONE;
    int bad = 0;
    UNROLLED for (uint j = 0u; j < OWN; j++) {
        uint key = own_key(j);
        int place = int(block + key - text.first_key);
        float score = finished_score(scores[j], text.table, place - text.place);
        weight_parts(score - kept.reference, e[j], n[j]);
        // Negative infinity is a masked key.
        bool there = own && uint(place) < text.keys && sees(text.of_row, place);
        bool spoils = is_nan(score) || value_exponent(key) == NOT_FINITE;
        bool masked = floatBitsToUint(score) == 0xff800000u;
        bad |= int(there && !masked && spoils);
        bool visible = there && !masked && !spoils;
        n[j] = visible ? n[j] : NONE;
        kept.largest = max(kept.largest, visible ? ordered(floatBitsToInt(score)) : NOTHING);
        block_power = max(block_power, n[j]);
    }
    block_power = largest_of_lanes(block_power);
    kept.spoilt = largest_of_lanes(bad) > 0 || kept.spoilt;

    // The denominator in fixed point, and the exponent of the numerator's integers.
    uvec2 sum = uvec2(0u);
    int exponent = NONE;
    UNROLLED for (uint j = 0u; j < OWN; j++) {
        int value = value_exponent(own_key(j));
        bool visible = n[j] != NONE;
        uint part = fixed_point(e[j], n[j] - block_power);
        add(sum, uvec2(visible ? part : 0u, 0u));
        int own_exponent = n[j] + value + (int(floatBitsToUint(e[j]) + 65793u) >> 23) - 127;
        exponent = max(exponent, visible && value != NOTHING ? own_exponent : NONE);
    }
    sum = sum_of_lanes(sum);
    exponent = largest_of_lanes(exponent);
    UNROLLED for (uint j = 0u; j < OWN; j++) {
        int value = value_exponent(own_key(j));
        int weight = weight_integer(e[j], n[j] + value + 22 - exponent);
        weights[j] = n[j] != NONE && value != NOTHING ? weight : 0;
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
