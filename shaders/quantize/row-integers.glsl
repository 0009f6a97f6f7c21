#version 460
// Computes: rows of x [M, K] as integers of 24 bits with an exponent: integers [M, K] words or, with DIGITS, [M, 3, K'] bytes, K' =
// 64 ceil(K / 64): three signed digits to the base 256, the lowest of all first, with zeros past K; row_exponents [M]. The
// columns' balance is in exponents from balance_at on: `src/quant/everywhere.rs`. With WEIGHT it counts negatively, the rows are those of
// matrices of balance_at rows each, and exponents has the block of each matrix: its rows' exponents, then its columns' balance.
// Grid: x = ceil(M / 4), continued along z; 64 invocations a row.
// Reduction order: none that matters, a maximum.
// Assumes: M K and the words of integers < 2^32.
//# numerics = ["everywhere"]
#include "counts.glsl"
#include "arithmetic.glsl"
#include "everywhere/exact-integers.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const bool DIGITS = false;
layout(constant_id = 1) const bool WEIGHT = false;

layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) readonly buffer Exponents { int exponents[]; };
layout(std430, binding = 3) writeonly buffer Integers { uint integers[]; };
layout(std430, binding = 4) writeonly buffer RowExponents { int row_exponents[]; };

layout(push_constant) uniform Push {
    uint rows_of;
    uint rows;
    uint k;
    uint balance_at;
} push;

shared int most[4];
shared uint largest[4];

// Where the exponents of the row's matrix begin.
uint block;

int balance_of(uint k) {
    int balance = exponents[block + push.balance_at + k];
    return WEIGHT ? -balance : balance;
}

void main() {
    uint lane = gl_LocalInvocationIndex % 64u;
    uint own = gl_LocalInvocationIndex / 64u;
    uint row = group_x() * 4u + own;
    bool there = row < batch_rows(push.rows_of, push.rows);
    block = WEIGHT ? row / push.balance_at * (push.balance_at + push.k) : 0u;
    if (lane == 0u) {
        most[own] = NOTHING;
        largest[own] = 0u;
    }
    barrier();
    if (there) {
        int own_most = NOTHING;
        uint own_largest = 0u;
        for (uint k = lane; k < push.k; k += 64u) {
            float number = x[row * push.k + k];
            own_most = max(own_most, measure(number, balance_of(k)));
            own_largest = max(own_largest, floatBitsToUint(number) & 0x7fffffffu);
        }
        atomicMax(most[own], own_most);
        atomicMax(largest[own], own_largest);
    }
    barrier();
    if (!there) {
        return;
    }
    int exponent = row_exponent(most[own], largest[own]);
    if (lane == 0u) {
        row_exponents[WEIGHT ? block + row % push.balance_at : row] = exponent;
    }
    if (!DIGITS) {
        for (uint k = lane; k < push.k; k += 64u) {
            int q = exponent == NOT_FINITE ? 0 : scaled_integer(x[row * push.k + k], balance_of(k) + 22 - exponent);
            integers[row * push.k + k] = uint(q);
        }
        return;
    }
    // Words of a digit.
    uint words = (push.k + 63u) / 64u * 16u;
    for (uint word = lane; word < words; word += 64u) {
        ivec4 q = ivec4(0);
        for (uint i = 0u; i < 4u; i++) {
            uint k = 4u * word + i;
            if (k < push.k && exponent != NOT_FINITE) {
                q[i] = scaled_integer(x[row * push.k + k], balance_of(k) + 22 - exponent);
            }
        }
        uvec3 found = digits_of(q);
        for (uint d = 0u; d < 3u; d++) {
            integers[(row * 3u + d) * words + word] = found[d];
        }
    }
}
