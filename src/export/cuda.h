// What Metal's language has and C++ does not: vectors, their functions, and bits. By grilly, MIT licence.
#ifdef __CUDACC__
#define FUNCTION static __device__ __forceinline__
#define MEMBER __device__ __forceinline__
#define CONSTANT static __constant__ const
#else
#define FUNCTION static inline
#define MEMBER inline
#define CONSTANT static const
#endif

typedef unsigned int uint;
typedef unsigned short ushort;

template <class T, int N>
struct vec;

template <class T>
struct same {
    typedef T type;
};

// Constructors: of one number for all, of one for each, and of another type.
template <class T>
struct alignas(2 * sizeof(T)) vec<T, 2> {
    T x, y;
    vec() = default;
    MEMBER explicit vec(T a) : x(a), y(a) {}
    MEMBER vec(T a, T b) : x(a), y(b) {}
    template <class U>
    MEMBER explicit vec(const vec<U, 2>& v) : x(T(v.x)), y(T(v.y)) {}
    MEMBER T& operator[](uint i) { return (&x)[i]; }
    MEMBER const T& operator[](uint i) const { return (&x)[i]; }
    MEMBER vec<T, 2> yx() const { return vec<T, 2>(y, x); }
};

template <class T>
struct vec<T, 3> {
    T x, y, z;
    vec() = default;
    MEMBER explicit vec(T a) : x(a), y(a), z(a) {}
    MEMBER vec(T a, T b, T c) : x(a), y(b), z(c) {}
    template <class U>
    MEMBER explicit vec(const vec<U, 3>& v) : x(T(v.x)), y(T(v.y)), z(T(v.z)) {}
    MEMBER T& operator[](uint i) { return (&x)[i]; }
    MEMBER const T& operator[](uint i) const { return (&x)[i]; }
    MEMBER vec<T, 2> xy() const { return vec<T, 2>(x, y); }
};

template <class T>
struct alignas(4 * sizeof(T)) vec<T, 4> {
    T x, y, z, w;
    vec() = default;
    MEMBER explicit vec(T a) : x(a), y(a), z(a), w(a) {}
    MEMBER vec(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
    MEMBER vec(const vec<T, 2>& a, const vec<T, 2>& b) : x(a.x), y(a.y), z(b.x), w(b.y) {}
    MEMBER vec(T a, T b, const vec<T, 2>& c) : x(a), y(b), z(c.x), w(c.y) {}
    MEMBER vec(const vec<T, 2>& a, T b, T c) : x(a.x), y(a.y), z(b), w(c) {}
    template <class U>
    MEMBER explicit vec(const vec<U, 4>& v) : x(T(v.x)), y(T(v.y)), z(T(v.z)), w(T(v.w)) {}
    MEMBER T& operator[](uint i) { return (&x)[i]; }
    MEMBER const T& operator[](uint i) const { return (&x)[i]; }
    MEMBER vec<T, 2> xy() const { return vec<T, 2>(x, y); }
    MEMBER vec<T, 2> zw() const { return vec<T, 2>(z, w); }
    MEMBER vec<T, 2> xz() const { return vec<T, 2>(x, z); }
    MEMBER vec<T, 2> yw() const { return vec<T, 2>(y, w); }
    MEMBER vec<T, 3> xyz() const { return vec<T, 3>(x, y, z); }
};

#define OPERATOR(RESULT, OP)                                             \
    template <class T, int N>                                            \
    FUNCTION vec<RESULT, N> operator OP(vec<T, N> a, vec<T, N> b) {      \
        vec<RESULT, N> r;                                                \
        for (int i = 0; i < N; i++) r[i] = a[i] OP b[i];                 \
        return r;                                                        \
    }                                                                    \
    template <class T, int N>                                            \
    FUNCTION vec<RESULT, N> operator OP(vec<T, N> a, typename same<T>::type b) { \
        return a OP vec<T, N>(b);                                        \
    }                                                                    \
    template <class T, int N>                                            \
    FUNCTION vec<RESULT, N> operator OP(typename same<T>::type a, vec<T, N> b) { \
        return vec<T, N>(a) OP b;                                        \
    }
#define ASSIGNING(OP)                                                    \
    OPERATOR(T, OP)                                                      \
    template <class T, int N, class B>                                   \
    FUNCTION vec<T, N>& operator OP##=(vec<T, N>& a, B b) {              \
        a = a OP b;                                                      \
        return a;                                                        \
    }
ASSIGNING(+) ASSIGNING(-) ASSIGNING(*) ASSIGNING(/) ASSIGNING(%)
ASSIGNING(&) ASSIGNING(|) ASSIGNING(^) ASSIGNING(<<) ASSIGNING(>>)
OPERATOR(bool, <) OPERATOR(bool, >) OPERATOR(bool, <=) OPERATOR(bool, >=) OPERATOR(bool, ==) OPERATOR(bool, !=)
OPERATOR(bool, &&) OPERATOR(bool, ||)

template <class T, int N>
FUNCTION vec<T, N> operator-(vec<T, N> a) {
    for (int i = 0; i < N; i++) a[i] = -a[i];
    return a;
}
template <int N>
FUNCTION vec<bool, N> operator!(vec<bool, N> a) {
    for (int i = 0; i < N; i++) a[i] = !a[i];
    return a;
}

typedef vec<float, 2> float2;
typedef vec<float, 3> float3;
typedef vec<float, 4> float4;
typedef vec<int, 2> int2;
typedef vec<int, 3> int3;
typedef vec<int, 4> int4;
typedef vec<uint, 2> uint2;
typedef vec<uint, 3> uint3;
typedef vec<uint, 4> uint4;
typedef vec<bool, 2> bool2;
typedef vec<bool, 3> bool3;
typedef vec<bool, 4> bool4;

template <class To, class From>
FUNCTION To as_type(const From& from) {
    static_assert(sizeof(To) == sizeof(From), "as_type keeps the size");
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
}

// A number of 16 bits, and two of them in a word.
struct half {
    ushort bits;
    half() = default;
    MEMBER explicit half(float x) {
#ifdef __CUDACC__
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
        bits = as_type<ushort>(_Float16(x));
#endif
    }
    MEMBER explicit operator float() const {
#ifdef __CUDACC__
        float x;
        asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
        return x;
#else
        return float(as_type<_Float16>(bits));
#endif
    }
};
typedef vec<half, 2> half2;

FUNCTION float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
FUNCTION float sqrt(float a) { return ::sqrtf(a); }
FUNCTION float rint(float a) { return ::rintf(a); }
FUNCTION float ceil(float a) { return ::ceilf(a); }
FUNCTION float floor(float a) { return ::floorf(a); }
FUNCTION float trunc(float a) { return ::truncf(a); }
FUNCTION float abs(float a) { return ::fabsf(a); }
FUNCTION int abs(int a) { return a < 0 ? -a : a; }
FUNCTION bool isinf(float a) { return (as_type<uint>(a) & 0x7fffffffu) == 0x7f800000u; }
FUNCTION bool isnan(float a) { return (as_type<uint>(a) & 0x7fffffffu) > 0x7f800000u; }
FUNCTION float min(float a, float b) { return ::fminf(a, b); }
FUNCTION float max(float a, float b) { return ::fmaxf(a, b); }
FUNCTION uint min(uint a, uint b) { return a < b ? a : b; }
FUNCTION uint max(uint a, uint b) { return a > b ? a : b; }
FUNCTION int min(int a, int b) { return a < b ? a : b; }
FUNCTION int max(int a, int b) { return a > b ? a : b; }
FUNCTION int extract_bits(int a, uint from, uint count) { return a << (32u - count - from) >> (32u - count); }
FUNCTION uint extract_bits(uint a, uint from, uint count) { return a << (32u - count - from) >> (32u - count); }
FUNCTION uint insert_bits(uint a, uint b, uint from, uint count) {
    uint mask = 0xffffffffu >> (32u - count) << from;
    return (a & ~mask) | (b << from & mask);
}
FUNCTION uint mulhi(uint a, uint b) { return uint((unsigned long long)a * b >> 32); }
template <class T>
FUNCTION T select(T a, T b, bool second) {
    return second ? b : a;
}
template <class T>
FUNCTION T clamp(T x, typename same<T>::type least, typename same<T>::type most) {
    return min(max(x, least), most);
}

#define ONE(NAME)                                                    \
    template <class T, int N>                                        \
    FUNCTION vec<T, N> NAME(vec<T, N> a) {                           \
        for (int i = 0; i < N; i++) a[i] = NAME(a[i]);               \
        return a;                                                    \
    }
#define TWO(NAME)                                                    \
    template <class T, int N>                                        \
    FUNCTION vec<T, N> NAME(vec<T, N> a, vec<T, N> b) {              \
        for (int i = 0; i < N; i++) a[i] = NAME(a[i], b[i]);         \
        return a;                                                    \
    }
ONE(sqrt) ONE(rint) ONE(ceil) ONE(floor) ONE(trunc) ONE(abs) TWO(min) TWO(max) TWO(mulhi)

// Both words of a product, least significant first.
template <class T, class U, class V>
FUNCTION T spvMulExtended(V a, V b) {
    return T{U(a * b), U(mulhi(a, b))};
}

template <class T, int N>
FUNCTION vec<T, N> fma(vec<T, N> a, vec<T, N> b, vec<T, N> c) {
    for (int i = 0; i < N; i++) a[i] = fma(a[i], b[i], c[i]);
    return a;
}
template <class T, int N>
FUNCTION vec<T, N> select(vec<T, N> a, vec<T, N> b, vec<bool, N> second) {
    for (int i = 0; i < N; i++) a[i] = second[i] ? b[i] : a[i];
    return a;
}
template <int N>
FUNCTION bool any(vec<bool, N> a) {
    bool r = false;
    for (int i = 0; i < N; i++) r = r || a[i];
    return r;
}
template <int N>
FUNCTION bool all(vec<bool, N> a) {
    bool r = true;
    for (int i = 0; i < N; i++) r = r && a[i];
    return r;
}

template <class T, uint N>
FUNCTION void spvArrayCopyFromStackToStack(T (&to)[N], const T (&from)[N]) {
    for (uint i = 0; i < N; i++) to[i] = from[i];
}

typedef uint atomic_uint;
enum order { memory_order_relaxed };
FUNCTION uint atomic_fetch_add_explicit(atomic_uint* at, uint value, order) {
#ifdef __CUDACC__
    return atomicAdd(at, value);
#else
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
#endif
}

FUNCTION uint atomic_fetch_or_explicit(atomic_uint* at, uint value, order) {
#ifdef __CUDACC__
    return atomicOr(at, value);
#else
    return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
#endif
}

// Operations that the compiler does not contract.
#ifdef __CUDACC__
FUNCTION float spvFMul(float a, float b) { return __fmul_rn(a, b); }
FUNCTION float spvFAdd(float a, float b) { return __fadd_rn(a, b); }
FUNCTION float spvFSub(float a, float b) { return __fsub_rn(a, b); }
#else
FUNCTION float spvFMul(float a, float b) { return a * b; }
FUNCTION float spvFAdd(float a, float b) { return a + b; }
FUNCTION float spvFSub(float a, float b) { return a - b; }
#endif
TWO(spvFMul) TWO(spvFAdd) TWO(spvFSub)
#undef ONE
#undef TWO
#undef OPERATOR
#undef ASSIGNING
