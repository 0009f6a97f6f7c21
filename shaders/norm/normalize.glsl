#version 460
// Computes: y = x / max(|x|, eps) or x / (|x| + eps), |x| the Euclidean norm of a row; x, y [rows, columns].
// Grid: x = ceil(rows / (256 / LANES)), or less: workgroups then continue with later rows.
// Reduction order: lane i sums squares of columns i, i + LANES, ... (VECTOR: of four columns each); lanes sum as a
// tree.
// Assumes: LANES is a power of two up to 256; with VECTOR, columns are a multiple of 4.
//# numerics = ["run", "everywhere"]
#include "counts.glsl"
#include "kinds.glsl"
#include "numbers.glsl"
#include "stored.glsl"

layout(local_size_x = 256) in;
// Invocations that share a row, consecutive ones, so that a workgroup has 256 / LANES rows. No subgroup operation is needed, so that
// any subgroup size gives the same bits.
layout(constant_id = 0) const uint LANES = 32;
layout(constant_id = 1) const bool VECTOR = false;
layout(constant_id = 2) const uint FLOOR = 0;
// Columns, or groups of four, that a lane keeps in registers, 8 at most; 0 where rows are too long and are read twice.
layout(constant_id = 3) const uint HELD = 0;

INPUT(1, x, vec4)
OUTPUT(2, y, vec4)

layout(push_constant) uniform Push {
    ROW_MEMBERS
    float eps;
} push;

shared float partial[256];

// Lane of this invocation in its row.
uint lane() {
    return gl_LocalInvocationIndex % LANES;
}

// The sum of `value` over a row's lanes, as a tree: lane i adds lane i + LANES/2, then i + LANES/4, ... Must be called
// by every invocation of the workgroup.
float row_sum(float value) {
    uint slot = gl_LocalInvocationIndex;
    barrier();
    partial[slot] = value;
    barrier();
    for (uint reach = LANES / 2u; reach > 0u; reach /= 2u) {
        if (lane() < reach) {
            partial[slot] += partial[slot + reach];
        }
        barrier();
    }
    return partial[slot - lane()];
}

// Four columns of a row, or one; zeros at and past `units`.
vec4 load(uint start, uint unit, uint units) {
    bool there = unit < units;
    uint at = there ? start + (VECTOR ? 4u : 1u) * unit : 0u;
    vec4 value = SETTLED((VECTOR ? x_4[at / 4u] : vec4(x[at], 0.0, 0.0, 0.0)));
    return mix(value, vec4(0.0), bvec4(!there));
}

void store(uint start, uint unit, vec4 value) {
    if (VECTOR) {
        y_4[start / 4u + unit] = CANONICAL(value);
    } else {
        y[start + unit] = CANONICAL(value.x);
    }
}

#ifdef EVERYWHERE
#define SQUARED(VALUE) squares + settled_product(VALUE, VALUE)
#define BY vec4(by)
#else
#define SQUARED(VALUE) fma(VALUE, VALUE, squares)
#define BY by
#endif

float divisor(vec4 squares) {
    float norm = sqrt(row_sum((squares.x + squares.y) + (squares.z + squares.w)));
    return FLOOR == FLOOR_MAX ? nan_max(norm, SETTLED(push.eps)) : norm + SETTLED(push.eps);
}

// Must be called by every invocation of the workgroup.
void normalize_row(uint start, uint units) {
    vec4 squares = vec4(0.0);
    if (HELD > 0u) {
        vec4 held[8];
        for (uint i = 0u; i < HELD; i++) {
            held[i] = load(start, lane() + i * LANES, units);
            squares = SQUARED(held[i]);
        }
        float by = divisor(squares);
        for (uint i = 0u; i < HELD; i++) {
            if (lane() + i * LANES < units) {
                store(start, lane() + i * LANES, QUOTIENT(held[i], BY));
            }
        }
        return;
    }
    for (uint unit = lane(); unit < units; unit += LANES) {
        vec4 value = load(start, unit, units);
        squares = SQUARED(value);
    }
    float by = divisor(squares);
    for (uint unit = lane(); unit < units; unit += LANES) {
        store(start, unit, QUOTIENT(load(start, unit, units), BY));
    }
}

void main() {
    uint rows = batch_rows(push.rows_of, push.rows);
    // Of a workgroup's first rows, so that every invocation takes part in the barriers.
    uint turn = gl_NumWorkGroups.x * (256u / LANES);
    for (uint first = gl_WorkGroupID.x * (256u / LANES); first < rows; first += turn) {
        uint row = first + gl_LocalInvocationIndex / LANES;
        normalize_row(row * push.columns, row < rows ? push.columns / (VECTOR ? 4u : 1u) : 0u);
    }
}
