// Matrices of 16 x 16 elements as four of 8 x 8 in order of rows, of each of which an invocation has two. By grilly, MIT licence.
#include <metal_simdgroup_matrix>

template <typename E>
simdgroup_matrix<E, 8, 8> block_of(const thread E (&e)[8], uint block) {
    simdgroup_matrix<E, 8, 8> m;
    m.thread_elements()[0] = e[2u * block];
    m.thread_elements()[1] = e[2u * block + 1u];
    return m;
}
template <typename E>
void set_block(thread E (&e)[8], uint block, thread simdgroup_matrix<E, 8, 8>& m) {
    e[2u * block] = m.thread_elements()[0];
    e[2u * block + 1u] = m.thread_elements()[1];
}
// `exchanged` of a matrix whose columns are lines of the array; `stride` elements T are between lines.
template <typename E, typename T>
void load_blocks(thread E (&e)[8], const threadgroup T* at, uint stride, bool exchanged) {
    uint step = stride * uint(sizeof(T) / sizeof(E));
    for (uint block = 0u; block < 4u; block++) {
        uint line = exchanged ? block % 2u : block / 2u;
        uint part = exchanged ? block / 2u : block % 2u;
        simdgroup_matrix<E, 8, 8> m;
        simdgroup_load(m, (const threadgroup E*)at + 8u * (line * step + part), step, ulong2(0), exchanged);
        set_block(e, block, m);
    }
}
#define LOAD(NAME, EXCHANGED)                                                                 \
    template <typename M, typename T>                                                         \
    M matrix_load_##NAME(const threadgroup T* at, uint index, uint stride) {                  \
        M m;                                                                                  \
        load_blocks(m.e, at + index, stride, EXCHANGED);                                      \
        return m;                                                                             \
    }
LOAD(left_rows, false)
LOAD(left_columns, true)
LOAD(right_rows, false)
LOAD(right_columns, true)
LOAD(sum_rows, false)
LOAD(sum_columns, true)
#undef LOAD

template <typename E, typename T>
void store_blocks(threadgroup T* at, uint stride, const thread E (&e)[8]) {
    uint step = stride * uint(sizeof(T) / sizeof(E));
    for (uint block = 0u; block < 4u; block++) {
        simdgroup_store(block_of(e, block), (threadgroup E*)at + 8u * (block / 2u * step + block % 2u), step);
    }
}
template <typename M, typename T>
void matrix_store_sum_rows(threadgroup T* at, uint index, uint stride, M m) {
    store_blocks(at + index, stride, m.e);
}

template <typename S, typename L, typename R>
S matrix_multiply_add(L left, R right, S sum) {
    S m;
    for (uint block = 0u; block < 4u; block++) {
        auto d = block_of(sum.e, block);
        for (uint k = 0u; k < 2u; k++) {
            simdgroup_multiply_accumulate(d, block_of(left.e, block / 2u * 2u + k), block_of(right.e, 2u * k + block % 2u), d);
        }
        set_block(m.e, block, d);
    }
    return m;
}

template <typename E, typename F>
void set_element(thread E& to, F from) {
    to = E(from);
}
#define EACH(NAME, ARGUMENTS, VALUE)                                    \
    template <typename M, typename X>                                   \
    M matrix_##NAME ARGUMENTS {                                         \
        M m;                                                            \
        for (uint i = 0u; i < 8u; i++) set_element(m.e[i], VALUE);      \
        return m;                                                       \
    }
EACH(all, (X x), x)
EACH(convert, (X x), x.e[i])
EACH(scale, (M a, X x), a.e[i] * x)
EACH(add, (M a, X b), a.e[i] + b.e[i])
EACH(subtract, (M a, X b), a.e[i] - b.e[i])
EACH(multiply, (M a, X b), a.e[i] * b.e[i])
EACH(divide, (M a, X b), a.e[i] / b.e[i])
#undef EACH
