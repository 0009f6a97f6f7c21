#version 460
// Computes: y[m, n] = scale sum_k a[m, k] b[n, k] for each of outer x inner batches, with the same bits on every device; a, b
// and y by strides.
// Grid: x = ceil(N / 64), y = ceil(M / 64), z loops over batches, and over tiles beyond 65,535 along an axis; 16 x 16
// invocations, each 4 x 4 results.
// Reduction order: none that matters, as sums of integers are exact.
// Assumes: K up to 278,528; fewer than 2^32 elements.
//# numerics = ["everywhere"]
#include "arithmetic.glsl"
#include "everywhere/exact-tiles.glsl"
#include "product/matmul-push.glsl"

layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 1) readonly buffer B { float b[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };

#define NUMBER_OF_A(LINE, K) a[a_base + (first_row + LINE) * push.a_row + K * push.a_k]
#define NUMBER_OF_B(LINE, K) b[b_base + (first_column + LINE) * push.b_column + K * push.b_k]
#define NO_BALANCE(K) 0
MEASURE_LINES(measure_a, NUMBER_OF_A, NO_BALANCE)
MEASURE_LINES(measure_b, NUMBER_OF_B, NO_BALANCE)

// The lines of a tile from `first` on.
uint lines(uint first, uint count) {
    return first < count ? min(count - first, TILE) : 0u;
}

// The halves of the integer of a number of a line.
int staged(float number, uint line) {
    int exponent = row_exponent(most[line], largest[line]);
    return halves(exponent == NOT_FINITE ? 0 : scaled_integer(number, 22 - exponent));
}

void load_step(uint start) {
    uint place = gl_LocalInvocationIndex % STEP;
    uint k = start + place;
    [[unroll]] for (uint i = 0u; i < TILE / 8u; i++) {
        uint line = gl_LocalInvocationIndex / STEP + 8u * i;
        int of_a = 0, of_b = 0;
        if (k < push.k && line < lines(first_row, push.m)) {
            of_a = staged(NUMBER_OF_A(line, k), line);
        }
        if (k < push.k && line < lines(first_column, push.n)) {
            of_b = staged(NUMBER_OF_B(line, k), TILE + line);
        }
        a_tile[line * STRIDE + place] = of_a;
        b_tile[line * STRIDE + place] = of_b;
    }
}

void main() {
    for (uint turn = gl_WorkGroupID.z; turn < all_turns(TILE, TILE); turn += gl_NumWorkGroups.z) {
        set_turn(turn, TILE, TILE);
        begin_measures();
        measure_a(0u, lines(first_row, push.m), push.k);
        measure_b(TILE, lines(first_column, push.n), push.k);
        multiply_tiles(push.k);
        [[unroll]] for (uint i = 0u; i < 16u; i++) {
            uint row = ty() + i / 4u * 16u;
            uint column = tx() + i % 4u * 16u;
            if (row < lines(first_row, push.m) && column < lines(first_column, push.n)) {
                int of_a = row_exponent(most[row], largest[row]);
                int of_b = row_exponent(most[TILE + column], largest[TILE + column]);
                float found = uintBitsToFloat(0x7fc00000u);
                if (of_a != NOT_FINITE && of_b != NOT_FINITE) {
                    found = assembled(sums[i], of_a + of_b - 44);
                }
                // A factor of 1 is none.
                if (floatBitsToUint(push.scale) != 0x3f800000u) {
                    found = settled_product(settled(found), settled(push.scale));
                }
                y[y_base + (first_row + row) * push.y_row + first_column + column] = canonical(found);
            }
        }
    }
}
