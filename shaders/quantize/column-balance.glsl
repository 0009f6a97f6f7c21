#version 460
// Computes: the balance of the K columns of matrices [N, K], in the exponents [N + K] of each from N on, in two dispatches: the
// exponents c of the columns' largest magnitudes, 0 of subnormal numbers; with LAST, min(c - m, 0), at least -250, and -250 where c
// is 0, m the one of those that are not 0 at index floor(9 (count - 1) / 10) in order: `src/quant/everywhere.rs`.
// Grid: x = ceil(K / 64), with LAST one, y = matrices. 4 invocations a column, with LAST 256 for all.
// Reduction order: none that matters, maxima and counts.
// Assumes: fewer than 2^32 elements.
//# numerics = ["everywhere"]
layout(local_size_x = 256) in;
layout(constant_id = 0) const bool LAST = false;

layout(std430, binding = 0) readonly buffer Weight { uint weight[]; };
layout(std430, binding = 1) buffer Exponents { int exponents[]; };

layout(push_constant) uniform Push {
    uint n;
    uint k;
} push;

// The largest of a column's bits, or how many columns have an exponent.
shared uint found[256];
shared int usual;

// Where the balance of this workgroup's matrix begins.
uint first_balance() {
    return gl_WorkGroupID.y * (push.n + push.k) + push.n;
}

void measure_columns() {
    uint own = gl_LocalInvocationIndex % 64u;
    uint column = 64u * gl_WorkGroupID.x + own;
    if (gl_LocalInvocationIndex < 64u) {
        found[own] = 0u;
    }
    barrier();
    if (column < push.k) {
        uint largest = 0u;
        for (uint row = gl_LocalInvocationIndex / 64u; row < push.n; row += 4u) {
            largest = max(largest, weight[(gl_WorkGroupID.y * push.n + row) * push.k + column] & 0x7fffffffu);
        }
        atomicMax(found[own], largest);
    }
    barrier();
    if (gl_LocalInvocationIndex < 64u && column < push.k) {
        exponents[first_balance() + column] = int(found[own] >> 23);
    }
}

void main() {
    if (!LAST) {
        measure_columns();
        return;
    }
    uint me = gl_LocalInvocationIndex;
    found[me] = 0u;
    barrier();
    for (uint column = me; column < push.k; column += 256u) {
        atomicAdd(found[uint(exponents[first_balance() + column])], 1u);
    }
    barrier();
    if (me == 0u) {
        uint count = push.k - found[0];
        uint place = count == 0u ? 0u : 9u * (count - 1u) / 10u;
        uint passed = 0u;
        usual = 0;
        for (uint c = 1u; c < 256u; c++) {
            if (passed <= place && place < passed + found[c]) {
                usual = int(c);
            }
            passed += found[c];
        }
    }
    barrier();
    for (uint column = me; column < push.k; column += 256u) {
        int c = exponents[first_balance() + column];
        exponents[first_balance() + column] = c == 0 ? -250 : clamp(c - usual, -250, 0);
    }
}
