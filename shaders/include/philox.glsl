// Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011): four words of a counter, least significant first, and a key.
// `src/ops/rng.rs` has the same with its known answers.
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
