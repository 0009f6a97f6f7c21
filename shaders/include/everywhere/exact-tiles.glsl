// Tiles of 64 x 64 exact products in shared memory; 16 x 16 invocations, each with rows ty + 16 i and columns tx + 16 j of the
// tile. The kernel measures its rows and columns, then loads steps of their integers. Loops are unrolled in part: lavapipe ends
// all loops of an invocation after 65,535 iterations together, which 278,528 terms stay below.
#extension GL_EXT_control_flow_attributes : require
#include "everywhere/exact-integers.glsl"

layout(local_size_x = 256) in;
// Whether there are more terms than 131,072, which 64 bits hold: sums then have 96.
layout(constant_id = 5) const bool LONG = false;

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

// Sums of an invocation, 4 i + j, the lowest word first; the last is there if LONG.
uvec3 sums[16];

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
                for (uint eight = gl_LocalInvocationIndex % 32u; eight < depth; eight += 8u * 32u) {                      \
                    /* Past the line's end its last number is repeated. */                                             \
                    [[unroll]] for (uint i = 0u; i < 8u; i++) {                                                        \
                        uint k = min(eight + 32u * i, depth - 1u);                                                      \
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

// Adds a sum of 64 bits, with its sign.
void add_part(inout uvec3 sum, uvec2 part) {
    sum.x += part.x;
    uint carry = sum.x < part.x ? 1u : 0u;
    uint middle = sum.y + part.y;
    uint over = middle < part.y ? 1u : 0u;
    sum.y = middle + carry;
    if (LONG) {
        sum.z += uint(int(part.y) >> 31) + over + (sum.y < carry ? 1u : 0u);
    }
}

// A sum 2^exponent, as `assembled` has it.
float assembled(uvec3 sum, int exponent) {
    // Of more than 64 bits the lowest word tells only whether there is more.
    bool beyond = LONG && sum.z != uint(int(sum.y) >> 31);
    uvec2 upper = uvec2(sum.y | (sum.x != 0u ? 1u : 0u), sum.z);
    return assembled(beyond ? upper : sum.xy, beyond ? exponent + 32 : exponent);
}

// Sets the sums of `depth` terms.
void multiply_tiles(uint depth) {
    [[unroll]] for (uint i = 0u; i < 16u; i++) {
        sums[i] = uvec3(0u);
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
            for (uint eight = 0u; eight < STEP; eight += 8u) {
                [[unroll]] for (uint step = 0u; step < 8u; step++) {
                    uint k = eight + step;
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
            uvec2 part = uvec2(0u);
            add_sums(part, parts[i]);
            add_part(sums[i], part);
        }
    }
}
