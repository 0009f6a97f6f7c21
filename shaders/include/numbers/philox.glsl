// Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011): four words of a counter, least significant first, and a key.
// `src/ops/rng.rs` has the same function with its known-answer tests.
uvec4 philox(uvec4 counter, uvec2 key) {
    for (uint turn = 0u; turn < 10u; turn++) {
        uvec2 low;
        uvec2 high;
        umulExtended(counter.xz, uvec2(0xd2511f53u, 0xcd9e8d57u), high, low);
        counter = uvec4(high.y ^ counter.y ^ key.x, low.y, high.x ^ counter.w ^ key.y, low.x);
        key += uvec2(0x9e3779b9u, 0xbb67ae85u);
    }
    return counter;
}

// Key and counter of a tensor's first four elements in a push block, least significant word first.
#define SEED_MEMBERS                                                                                                   \
    uint seed_0;                                                                                                       \
    uint seed_1;                                                                                                       \
    uint offset_0;                                                                                                     \
    uint offset_1;
#define SEED_WORDS uvec2(push.seed_0, push.seed_1)
#define OFFSET_WORDS uvec2(push.offset_0, push.offset_1)

// The words of elements 4 quad .. 4 quad + 3. Key and counter of the first four elements, least significant word first.
// `upper` has the upper words of all counters.
uvec4 words_of_quad(uint quad, uvec2 seed, uvec2 offset, uvec2 upper) {
    uint carry;
    uint low = uaddCarry(offset.x, quad, carry);
    return philox(uvec4(low, offset.y + carry, upper), seed);
}

// Which of a tensor's elements 4 quad .. 4 quad + 3 dropout retains: where u >= p, u uniform in 0 .. 1, a multiple of
// 2^-24; the comparison uses integers, which is equivalent.
bvec4 kept_by_chance(float p, uint quad, uvec2 seed, uvec2 offset, uvec2 upper) {
    uvec4 words = words_of_quad(quad, seed, offset, upper);
    return greaterThanEqual(words >> 8, uvec4(ceil(p * 16777216.0)));
}

bvec4 kept_by_chance(float p, uint quad, uvec2 seed, uvec2 offset) {
    return kept_by_chance(p, quad, seed, offset, uvec2(0u));
}
