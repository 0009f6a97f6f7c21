// What a GPU's warps do together, for kernels that run on a CPU with a thread per lane: the lanes exchange words, then each
// computes its part. After the header of the exported CUDA; with METAL what Metal's library has, without what the header of CUDA's
// matrices declares.
#include <memory>
static std::vector<std::unique_ptr<std::barrier<>>> warps;
static unsigned words[32][32][10];
namespace grilly {
static uint lane_of_warp() { return threadIdx.x % 32u; }
static void wait_for_warp() { warps[threadIdx.x / 32u]->arrive_and_wait(); }
static auto& given() { return words[threadIdx.x / 32u]; }
static float spvSubgroupShuffleXor(float x, uint lanes) {
    memcpy(given()[lane_of_warp()], &x, 4);
    wait_for_warp();
    memcpy(&x, given()[lane_of_warp() ^ lanes], 4);
    wait_for_warp();
    return x;
}
static bool simd_any(bool x) {
    given()[lane_of_warp()][0] = x;
    wait_for_warp();
    bool any = false;
    for (uint lane = 0; lane < 32; lane++) any = any || given()[lane][0];
    wait_for_warp();
    return any;
}

#ifdef METAL
static float simd_min(float x) {
    for (uint lanes = 1; lanes < 32; lanes *= 2) x = ::fminf(x, spvSubgroupShuffleXor(x, lanes));
    return x;
}
#define simdgroup_barrier(...) wait_for_warp()
static float exp2(float x) { return ::exp2f(x); }
static float log2(float x) { return ::log2f(x); }
static half operator*(half a, half b) { return half(float(a) * float(b)); }
struct bfloat {
    ushort bits;
    bfloat() = default;
    explicit bfloat(float x) {
        uint b = as_type<uint>(x);
        bits = ushort((b + 0x7fffu + (b >> 16 & 1u)) >> 16);
    }
    explicit operator float() const { return as_type<float>(uint(bits) << 16); }
};
typedef unsigned long long ulong;
struct ulong2 { ulong both; };
template <class E, int, int>
struct simdgroup_matrix {
    E own[2];
    E (&thread_elements())[2] { return own; }
};
// Rows and columns of the first of a lane's two elements, which are neighbours.
static uint row_of_lane(uint lane) { return lane / 16 * 4 + lane / 2 % 4; }
static uint column_of_lane(uint lane) { return lane / 8 % 2 * 4 + lane % 2 * 2; }
template <class E>
static void simdgroup_load(simdgroup_matrix<E, 8, 8>& m, const E* at, ulong step, ulong2 = {}, bool exchanged = false) {
    uint row = row_of_lane(lane_of_warp()), column = column_of_lane(lane_of_warp());
    for (uint i = 0; i < 2; i++) m.own[i] = exchanged ? at[(column + i) * step + row] : at[row * step + column + i];
    wait_for_warp();
}
template <class E>
static void simdgroup_store(simdgroup_matrix<E, 8, 8> m, E* at, ulong step) {
    uint row = row_of_lane(lane_of_warp()), column = column_of_lane(lane_of_warp());
    for (uint i = 0; i < 2; i++) at[row * step + column + i] = m.own[i];
    wait_for_warp();
}
template <class S, class A, class B>
static void simdgroup_multiply_accumulate(
    simdgroup_matrix<S, 8, 8>& d, simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<S, 8, 8> c) {
    uint lane = lane_of_warp();
    float own[4] = {float(a.own[0]), float(a.own[1]), float(b.own[0]), float(b.own[1])};
    memcpy(given()[lane], own, 16);
    wait_for_warp();
    double sums[2] = {float(c.own[0]), float(c.own[1])};
    auto number = [&](uint row, uint column, uint first) {
        uint owner = row / 4 * 16 + column / 4 * 8 + row % 4 * 2 + column % 4 / 2;
        float x;
        memcpy(&x, &given()[owner][first + column % 2], 4);
        return double(x);
    };
    for (uint i = 0; i < 2; i++)
        for (uint k = 0; k < 8; k++)
            sums[i] += number(row_of_lane(lane), k, 0) * number(k, column_of_lane(lane) + i, 2);
    for (uint i = 0; i < 2; i++) d.own[i] = S(sums[i]);
    wait_for_warp();
}
#else
static void load_four(uint (&r)[4], address row, bool exchanged) {
    uint lane = lane_of_warp();
    memcpy(given()[lane], &row, sizeof(row));
    wait_for_warp();
    for (uint m = 0; m < 4; m++) {
        ushort pair[2];
        for (uint i = 0; i < 2; i++) {
            uint line = exchanged ? lane % 4 * 2 + i : lane / 4, column = exchanged ? lane / 4 : lane % 4 * 2 + i;
            address from;
            memcpy(&from, given()[8 * m + line], sizeof(from));
            memcpy(&pair[i], from + 2 * column, 2);
        }
        memcpy(&r[m], pair, 4);
    }
    wait_for_warp();
}
template <class E>
static void multiply_eight(float (&d)[4], const eight<E>& left, const uint* b, const float (&c)[4]) {
    uint lane = lane_of_warp();
    memcpy(given()[lane], left.words, 16);
    memcpy(given()[lane] + 4, b, 8);
    wait_for_warp();
    auto number = [&](uint lane, uint word, uint place) {
        E x;
        x.bits = ushort(given()[lane][word] >> 16 * place);
        return double(float(x));
    };
    for (uint i = 0; i < 4; i++) {
        uint row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
        double sum = c[i];
        for (uint k = 0; k < 16; k++)
            sum += number(row % 8 * 4 + k % 8 / 2, row / 8 * 2 + k / 8, k % 2)
                * number(column * 4 + k % 8 / 2, 4 + k / 8, k % 2);
        d[i] = float(sum);
    }
    wait_for_warp();
}
#endif
}
