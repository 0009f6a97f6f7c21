// Which keys of its text a query sees. Places and keys are counted from the text's first key; CAUSAL and WINDOW are
// constants of the shader.

// The place of a text's query `query`, which may lie before the first key.
int place_of(uint query, uint queries, uint keys) {
    return int(query) + (push.align_end != 0u ? int(keys) - int(queries) : 0);
}

// Keys 0 .. leading - 1 and begin .. end - 1.
struct Sight {
    int leading;
    int begin;
    int end;
};

// A window that begins as that of place `from` and ends as that of `to`, or, if `widest`, one over all keys.
Sight sight(int from, int to, bool widest, int keys) {
    int last = CAUSAL ? min(keys, to + 1) : keys;
    if (!WINDOW) {
        return Sight(0, 0, last);
    }
    int begin = widest ? 0 : max(from - int(push.window), 0);
    return Sight(min(int(push.global_tokens), last), begin, widest ? last : min(last, to + int(push.window) + 1));
}

// What one place sees.
Sight sight_of(int place, int keys) {
    return sight(place, place, uint(place) < push.global_tokens, keys);
}

// At least what any place of first .. last sees.
Sight sight_of_any(int first, int last, int keys) {
    return sight(first, last, first < int(push.global_tokens) && last >= 0, keys);
}

// At most what every place of first .. last sees.
Sight sight_of_all(int first, int last, int keys) {
    return sight(last, first, false, keys);
}

// Behind the last key that is seen.
int end_of(Sight own) {
    return max(own.begin < own.end ? max(own.leading, own.end) : own.leading, 0);
}

bool sees(Sight own, int key) {
    return any(bvec2(key < own.leading, all(bvec2(key >= own.begin, key < own.end))));
}

// Whether some of `count` keys from `key` on are seen.
bool sees_some(Sight own, int key, int count) {
    return key < own.leading || (max(key, own.begin) < min(key + count, own.end));
}

// Whether all are.
bool sees_each(Sight own, int key, int count) {
    return key + count <= own.leading || (key >= own.begin && key + count <= own.end);
}
