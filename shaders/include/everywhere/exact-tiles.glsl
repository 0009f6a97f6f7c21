// Tiles of 64 x 64 exact products in shared memory; 16 x 16 invocations, each with rows ty + 16 i and columns tx + 16 j of the
// tile. The kernel measures its rows and columns, then loads steps of their integers. Loops are unrolled in part: lavapipe ends
// all loops of an invocation after 65,535 iterations together.
#extension GL_EXT_control_flow_attributes : require
#include "everywhere/exact-integers.glsl"

layout(local_size_x = 256) in;

const uint TILE = 64u;
// Terms of a step; an odd stride keeps neighbouring rows in different banks.
const uint STEP = 32u;
const uint STRIDE = STEP + 1u;
// Terms that 32 bits hold.
const uint FLUSH = 256u;

// Halves of the integers of a step, row by row.
shared int a_tile[TILE * STRIDE];
shared int b_tile[TILE * STRIDE];
// Of the tile's rows, then of its columns where they are measured: what decides the exponent, the largest bits of a magnitude.
shared int most[2u * TILE];
shared uint largest[2u * TILE];

// Sums of an invocation: 4 i + j.
uvec2 sums[16];

uint tx() {
    return gl_LocalInvocationIndex % 16u;
}

uint ty() {
    return gl_LocalInvocationIndex / 16u;
}

// Forgets the measures of the last tile.
void begin_measures() {
    barrier();
    if (gl_LocalInvocationIndex < 2u * TILE) {
        most[gl_LocalInvocationIndex] = NOTHING;
        largest[gl_LocalInvocationIndex] = 0u;
    }
    barrier();
}

// Declares MEASURES: measures 64 lines, of which `count` exist, of DEPTH numbers NUMBER(line, k), with the balance BALANCE(k), 32
// invocations a line.
#define MEASURE_LINES(MEASURES, NUMBER, BALANCE)                                                                       \
    void MEASURES(uint place, uint count, uint depth) {                                                                \
        for (uint line = gl_LocalInvocationIndex / 32u; line < TILE; line += 8u) {                                     \
            if (line < count) {                                                                                        \
                int own_most = NOTHING;                                                                                \
                uint own_largest = 0u;                                                                                 \
                for (uint four = gl_LocalInvocationIndex % 32u; four < depth; four += 4u * 32u) {                      \
                    /* Past the line's end its last number is repeated. */                                             \
                    [[unroll]] for (uint i = 0u; i < 4u; i++) {                                                        \
                        uint k = min(four + 32u * i, depth - 1u);                                                      \
                        float number = NUMBER(line, k);                                                                \
                        own_most = max(own_most, measure(number, BALANCE(k)));                                         \
                        own_largest = max(own_largest, floatBitsToUint(number) & 0x7fffffffu);                         \
                    }                                                                                                  \
                }                                                                                                      \
                atomicMax(most[place + line], own_most);                                                               \
                atomicMax(largest[place + line], own_largest);                                                         \
            }                                                                                                          \
        }                                                                                                              \
    }

// The kernel's: loads terms start .. start + 31 of the tile's rows and columns; zeros past the last.
void load_step(uint start);

// Sets the sums of `depth` terms.
void multiply_tiles(uint depth) {
    [[unroll]] for (uint i = 0u; i < 16u; i++) {
        sums[i] = uvec2(0u);
    }
    for (uint chunk = 0u; chunk < depth; chunk += FLUSH) {
        ivec3 parts[16];
        [[unroll]] for (uint i = 0u; i < 16u; i++) {
            parts[i] = ivec3(0);
        }
        for (uint start = chunk; start < min(chunk + FLUSH, depth); start += STEP) {
            barrier();
            load_step(start);
            barrier();
            for (uint four = 0u; four < STEP; four += 4u) {
                [[unroll]] for (uint step = 0u; step < 4u; step++) {
                    uint k = four + step;
                    int a[4];
                    [[unroll]] for (uint i = 0u; i < 4u; i++) {
                        a[i] = a_tile[(ty() + 16u * i) * STRIDE + k];
                    }
                    [[unroll]] for (uint j = 0u; j < 4u; j++) {
                        int b = b_tile[(tx() + 16u * j) * STRIDE + k];
                        [[unroll]] for (uint i = 0u; i < 4u; i++) {
                            add_product(a[i], b, parts[4u * i + j]);
                        }
                    }
                }
            }
        }
        [[unroll]] for (uint i = 0u; i < 16u; i++) {
            add_sums(sums[i], parts[i]);
        }
    }
}
