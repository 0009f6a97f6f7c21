// Matrices of 16 x 16 elements on matrix cores, from compute capability 8.0: of a warp, element e of lane l is in row l / 4 +
// 8 (e / 4) and column 2 (l % 4) + e % 2 + 8 (e / 2 % 2), in right operands with rows and columns exchanged.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "matrix cores need compute capability 8.0: compile for compute_80 or later"
#endif

struct bfloat {
    ushort bits;
    bfloat() = default;
    MEMBER explicit bfloat(float x) {
        uint b = as_type<uint>(x);
        bits = ushort((b & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : (b + 0x7fffu + (b >> 16 & 1u)) >> 16);
    }
    MEMBER explicit operator float() const { return as_type<float>(uint(bits) << 16); }
};

// Eight elements of 16 bits, two in a word.
template <class E>
struct eight {
    struct place {
        uint& word;
        bool upper;
        MEMBER void operator=(E x) {
            vec<ushort, 2> both = as_type<vec<ushort, 2>>(word);
            (upper ? both.y : both.x) = x.bits;
            word = as_type<uint>(both);
        }
    };
    uint words[4];
    MEMBER place operator[](uint e) { return place{words[e / 2u], e % 2u != 0u}; }
};

FUNCTION float log2(float x) { return ::log2f(x); }
#ifdef __CUDACC__
FUNCTION uint lane_of_warp() { return threadIdx.x % 32u; }
// An address in shared memory, of 32 bits.
typedef uint address;
FUNCTION address address_of(const void* at) { return uint(__cvta_generic_to_shared(at)); }
// Four matrices of 8 x 8 elements of 16 bits, each lane with the address of a row, in the order of the lanes.
FUNCTION void load_four(uint (&r)[4], address row, bool exchanged) {
    if (exchanged) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
    }
}
// Adds the product of 16 x 16 and 16 x 8 elements to 16 x 8 sums.
#define MULTIPLY_ADD(TYPE)                                                                                           \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, " \
        "{%10, %11, %12, %13};"                                                                                      \
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                                             \
        : "r"(left.words[0]), "r"(left.words[2]), "r"(left.words[1]), "r"(left.words[3]), "r"(b[0]), "r"(b[1]),      \
          "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]))
FUNCTION void multiply_eight(float (&d)[4], const eight<half>& left, const uint* b, const float (&c)[4]) {
    MULTIPLY_ADD("f16");
}
FUNCTION void multiply_eight(float (&d)[4], const eight<bfloat>& left, const uint* b, const float (&c)[4]) {
    MULTIPLY_ADD("bf16");
}
#undef MULTIPLY_ADD
FUNCTION float spvSubgroupShuffleXor(float x, uint lanes) { return __shfl_xor_sync(0xffffffffu, x, lanes); }
FUNCTION float exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
FUNCTION bool simd_any(bool x) { return __any_sync(0xffffffffu, x); }
#define simdgroup_barrier(...) __syncwarp()
FUNCTION vec<half, 2> operator*(vec<half, 2> a, vec<half, 2> b) {
    uint product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(as_type<uint>(a)), "r"(as_type<uint>(b)));
    return as_type<vec<half, 2>>(product);
}
#else
// Defined by whoever runs the lanes of a warp in step.
typedef const char* address;
static address address_of(const void* at) { return (address)at; }
static uint lane_of_warp();
static void load_four(uint (&r)[4], address row, bool exchanged);
template <class E>
static void multiply_eight(float (&d)[4], const eight<E>& left, const uint* b, const float (&c)[4]);
static float spvSubgroupShuffleXor(float x, uint lanes);
static bool simd_any(bool x);
static void wait_for_warp();
#define simdgroup_barrier(...) wait_for_warp()
FUNCTION float exp2(float x) { return ::exp2f(x); }
FUNCTION half operator*(half a, half b) { return half(float(a) * float(b)); }
#endif

// Lines of 16 elements of 16 bits, as they are or with rows and columns exchanged: in `order` of lanes the first eight lines, or
// both of their parts, come first, so that a matrix instruction finds its operand in neighbouring registers.
template <class M, class T>
FUNCTION M load_lines(const T* at, uint index, uint stride, bool lines_first, bool exchanged, bool left) {
    uint lane = lane_of_warp();
    uint line = lines_first ? lane % 16u : lane % 8u + lane / 16u * 8u;
    uint part = lines_first ? lane / 16u : lane / 8u % 2u;
    uint r[4];
    load_four(r, address_of(at) + 16u * (line * stride + part) + 16u * index, exchanged);
    M m;
    m.e.words[0] = r[0], m.e.words[1] = r[left ? 2 : 1], m.e.words[2] = r[left ? 1 : 2], m.e.words[3] = r[3];
    return m;
}
#define LOAD(NAME, LINES_FIRST, EXCHANGED, LEFT)                                       \
    template <class M, class T>                                                        \
    FUNCTION M matrix_load_##NAME(const T* at, uint index, uint stride) {              \
        return load_lines<M>(at, index, stride, LINES_FIRST, EXCHANGED, LEFT);         \
    }
LOAD(left_rows, true, false, true)
LOAD(left_columns, false, true, true)
LOAD(right_columns, false, false, false)
LOAD(right_rows, true, true, false)
#undef LOAD

// The type of a matrix' elements.
template <class T>
struct of_reference;
template <class T>
struct of_reference<T&> {
    typedef T type;
};
template <class M>
struct part_of {
    typedef typename of_reference<decltype((((M*)0)->e[0]))>::type type;
};
FUNCTION uint row_of_element(uint e) { return lane_of_warp() / 4u + 8u * (e / 4u); }
FUNCTION uint column_of_element(uint e) { return lane_of_warp() % 4u * 2u + e % 2u + e / 2u % 2u * 8u; }

// The place of an element among those of an array, whose lines are `stride` of its elements T apart.
template <class E, class T>
FUNCTION uint place_of_element(uint row, uint column, uint index, uint stride) {
    return (index + row * stride) * uint(sizeof(T) / sizeof(E)) + column;
}
template <class M, class T>
FUNCTION M matrix_load_sum_rows(const T* at, uint index, uint stride) {
    M m;
    typedef typename part_of<M>::type E;
    for (uint e = 0u; e < 8u; e++) {
        m.e[e] = ((const E*)at)[place_of_element<E, T>(row_of_element(e), column_of_element(e), index, stride)];
    }
    return m;
}
template <class M, class T>
FUNCTION M matrix_load_sum_columns(const T* at, uint index, uint stride) {
    M m;
    typedef typename part_of<M>::type E;
    for (uint e = 0u; e < 8u; e++) {
        m.e[e] = ((const E*)at)[place_of_element<E, T>(column_of_element(e), row_of_element(e), index, stride)];
    }
    return m;
}
// Two neighbours at once.
template <class M, class T>
FUNCTION void matrix_store_sum_rows(T* at, uint index, uint stride, const M& m) {
    typedef typename part_of<M>::type E;
    for (uint e = 0u; e < 8u; e += 2u) {
        uint place = place_of_element<E, T>(row_of_element(e), column_of_element(e), index, stride);
        *(vec<E, 2>*)((E*)at + place) = vec<E, 2>(m.e[e], m.e[e + 1u]);
    }
}

template <class S, class L, class R>
FUNCTION S matrix_multiply_add(const L& left, const R& right, const S& sum) {
    S m;
    for (uint h = 0u; h < 2u; h++) {
        float c[4] = {sum.e[2u * h], sum.e[2u * h + 1u], sum.e[2u * h + 4u], sum.e[2u * h + 5u]};
        float d[4];
        multiply_eight(d, left.e, right.e.words + 2u * h, c);
        m.e[2u * h] = d[0], m.e[2u * h + 1u] = d[1], m.e[2u * h + 4u] = d[2], m.e[2u * h + 5u] = d[3];
    }
    return m;
}

#define EACH(NAME, ARGUMENTS, VALUE)                       \
    template <class M, class X>                            \
    FUNCTION M matrix_##NAME ARGUMENTS {                         \
        M m;                                               \
        typedef typename part_of<M>::type E;                  \
        for (uint e = 0u; e < 8u; e++) m.e[e] = E(VALUE);  \
        return m;                                          \
    }
EACH(all, (X x), x)
EACH(convert, (const X& x), x.e[e])
EACH(scale, (const M& a, X x), a.e[e] * x)
#define BOTH(NAME, OP) EACH(NAME, (const M& a, const X& b), a.e[e] OP b.e[e])
BOTH(add, +) BOTH(subtract, -) BOTH(multiply, *) BOTH(divide, /)
#undef BOTH
#undef EACH
