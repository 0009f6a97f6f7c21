// Which keys of its text a query sees. Positions and keys are relative to the text's first key; CAUSAL and WINDOW are
// constants of the shader.

// The position of a text's query `query`, which may be before the first key.
int place_of(uint query, uint queries, uint keys) {
    return int(query) + (push.align_end != 0u ? int(keys) - int(queries) : 0);
}

// Keys 0 .. leading - 1 and begin .. end - 1.
struct Sight {
    int leading;
    int begin;
    int end;
};

// The window that begins at that of position `from` and ends at that of `to`, or, if `widest`, includes all keys.
Sight sight(int from, int to, bool widest, int keys) {
    int last = CAUSAL ? min(keys, to + 1) : keys;
    if (!WINDOW) {
        return Sight(0, 0, last);
    }
    int begin = widest ? 0 : max(from - int(push.window), 0);
    return Sight(min(int(push.global_tokens), last), begin, widest ? last : min(last, to + int(push.window) + 1));
}

// The keys visible to one position.
Sight sight_of(int place, int keys) {
    return sight(place, place, uint(place) < push.global_tokens, keys);
}

// At least the keys visible to any position of first .. last.
Sight sight_of_any(int first, int last, int keys) {
    return sight(first, last, first < int(push.global_tokens) && last >= 0, keys);
}

// At most the keys visible to every position of first .. last.
Sight sight_of_all(int first, int last, int keys) {
    return sight(last, first, false, keys);
}

// The index after the last visible key.
int end_of(Sight own) {
    return max(own.begin < own.end ? max(own.leading, own.end) : own.leading, 0);
}

bool sees(Sight own, int key) {
    return any(bvec2(key < own.leading, all(bvec2(key >= own.begin, key < own.end))));
}

// Whether any of `count` keys from `key` on is visible.
bool sees_some(Sight own, int key, int count) {
    return key < own.leading || (max(key, own.begin) < min(key + count, own.end));
}

// Whether all of them are.
bool sees_each(Sight own, int key, int count) {
    return key + count <= own.leading || (key >= own.begin && key + count <= own.end);
}
