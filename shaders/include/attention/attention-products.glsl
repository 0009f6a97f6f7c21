// The products of attention in float32, from blocks in shared memory: rows, and others that they meet. The shader declares
// CHUNKS of 32 columns, QUADS of others, ROWS, `stage`, which has a chunk of the rows and from row FIRST_OTHER on one of the
// others, other 4 a + b in row QUADS b + a, or weights, with CHUNK_STRIDE and WEIGHT_STRIDE, `values` of others, and IS_HIDDEN.
#include "numbers/terms.glsl"

// Scores and weights: rows ty + i, others 4 tx + j. Results: rows tr and tr + 1, quad tc of each chunk.
uint tx, ty, tc, tr;
vec4 result[2u * CHUNKS];

void begin_results() {
    tx = gl_LocalInvocationIndex % QUADS;
    ty = gl_LocalInvocationIndex / QUADS * ROWS;
    tc = gl_LocalInvocationIndex % 8u;
    tr = gl_LocalInvocationIndex / 8u * 2u;
    [[unroll]] for (uint i = 0u; i < 2u * CHUNKS; i++) {
        result[i] = vec4(0.0);
    }
}

// Adds the products of the staged chunks to SUM.
#define ADD_PRODUCTS(SUM)                                                                                              \
    [[unroll]] for (uint c = 0u; c < 8u; c++) {                                                                        \
        vec4 b[4];                                                                                                     \
        [[unroll]] for (uint j = 0u; j < 4u; j++) {                                                                    \
            b[j] = stage[(FIRST_OTHER + QUADS * j + tx) * CHUNK_STRIDE + c];                                           \
        }                                                                                                              \
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {                                                                  \
            vec4 a = stage[(ty + i) * CHUNK_STRIDE + c];                                                               \
            [[unroll]] for (uint j = 0u; j < 4u; j++) {                                                                \
                SUM[i][j] = accumulate(a, b[j], SUM[i][j]);                                                            \
            }                                                                                                          \
        }                                                                                                              \
    }

// Adds a chunk of the values of `count` others, times their weights, to the results, times their factors, of those of both rows
// that are of their text; if `marked`, some weights are marks of others that a row does not see.
void add_values(uint chunk, uint count, bool own_0, bool own_1, float factor_0, float factor_1, bool marked) {
    vec4 r_0 = result[2u * chunk] * factor_0;
    vec4 r_1 = result[2u * chunk + 1u] * factor_1;
    for (uint j = 0u; 4u * j < count; j++) {
        vec4 w_0 = stage[tr * WEIGHT_STRIDE + j];
        vec4 w_1 = stage[(tr + 1u) * WEIGHT_STRIDE + j];
        if (marked) {
            // 0 times a hidden NaN is not 0.
            [[unroll]] for (uint i = 0u; i < 4u; i++) {
                vec4 value = values[(4u * j + i) * 8u + tc];
                r_0 = mix(fma(vec4(w_0[i]), value, r_0), r_0, bvec4(IS_HIDDEN(w_0[i])));
                r_1 = mix(fma(vec4(w_1[i]), value, r_1), r_1, bvec4(IS_HIDDEN(w_1[i])));
            }
            continue;
        }
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            vec4 value = values[(4u * j + i) * 8u + tc];
            r_0 = fma(vec4(w_0[i]), value, r_0);
            r_1 = fma(vec4(w_1[i]), value, r_1);
        }
    }
    // A row of another text keeps its results: 0 times a NaN of this text is not 0.
    result[2u * chunk] = mix(result[2u * chunk], r_0, bvec4(own_0));
    result[2u * chunk + 1u] = mix(result[2u * chunk + 1u], r_1, bvec4(own_1));
}
