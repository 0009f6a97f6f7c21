// Rows shared among LANES consecutive invocations, 256 / LANES rows per workgroup; each invocation has QUADS groups of four
// columns, which it keeps in registers if HELD, so that a row is read once. A longer row consists of parts of PART columns, which
// are held one after the other. Needs no subgroup operation: any subgroup size gives the same bits.
// `src/backend/vulkan/kernels/rows.rs` chooses the constants from the columns alone.
#extension GL_EXT_control_flow_attributes : require
#include "stored.glsl"

#ifdef EVERYWHERE
// 64 sums of a row, of columns 64 apart in order, whatever the number of columns.
const uint LANES = 64;
const uint SUMS = LANES;
#else
layout(constant_id = 0) const uint LANES = 32;
// Sums of a row, by its columns alone: sum s is of groups of columns s, s + SUMS, ...
const uint SUMS = LANES > 32u ? 256u : 32u;
#endif
// Those of an invocation: sums l, l + LANES, ... of lane l.
const uint TURNS = SUMS / LANES;
layout(constant_id = 1) const uint QUADS = 8;
layout(constant_id = 2) const bool HELD = true;
// Whether rows start at multiples of four elements.
#ifdef EVERYWHERE
const bool VECTOR = false;
#else
ALIGNED_ROWS(VECTOR, 3);
#endif

#include "rows/row-lanes.glsl"

// What the invocation keeps of its row, or of a part.
vec4 held[QUADS];

void hold(uint i, vec4 quad) {
    if (HELD) {
        held[i] = quad;
    }
}

// Columns of a part; a row of `numerics="everywhere"` has one, which is read again if not HELD.
const uint PART = 4u * LANES * QUADS;
#ifdef EVERYWHERE
const bool IN_PARTS = false;
#define PART_HELD HELD
#else
const bool IN_PARTS = !HELD;
#define PART_HELD true
#endif

uint parts_of(uint columns) {
    return IN_PARTS ? (columns + PART - 1u) / PART : 1u;
}

// The first group of a part of so many: a constant where there is one part, of which drivers then know every place.
uint first_of(uint part, uint each) {
    return IN_PARTS ? part * each : 0u;
}

// Columns of a part of a row.
uint part_columns(uint part, uint columns) {
    return IN_PARTS ? min(PART, columns - part * PART) : columns;
}

// Groups of four columns per invocation, of a row and of a part.
uint quads(uint columns) {
    return HELD ? QUADS : (columns + 4u * LANES - 1u) / (4u * LANES);
}

uint part_quads(uint columns) {
    return PART_HELD ? QUADS : quads(columns);
}

// Begins the main function of a shader whose push block has ROW_MEMBERS: the row, its columns, its first element and its
// groups of columns. Invocations past the last row take part in the barriers with no columns.
#define OWN_ROW                                                                                                        \
    uint row = own_row();                                                                                              \
    uint columns = row < batch_rows(push.rows_of, push.rows) ? push.columns : 0u;                                      \
    uint start = row * push.columns;                                                                                   \
    uint count = quads(push.columns);

// Columns of group i: adjacent if VECTOR, else SUMS apart, so that neighbouring invocations read neighbouring columns.
uvec4 columns_of(uint i) {
    const uvec4 places = uvec4(0u, 1u, 2u, 3u);
    return VECTOR ? 4u * (i * LANES + lane()) + places
                  : 4u * (i / TURNS) * SUMS + (i % TURNS) * LANES + lane() + SUMS * places;
}

// Which of them are columns of the row: if VECTOR, all or none.
bvec4 inside(uint i, uint columns) {
    return VECTOR ? bvec4(columns_of(i).x < columns) : lessThan(columns_of(i), uvec4(columns));
}

// Replaces values past the last column with `other`.
vec4 within(vec4 value, uint i, uint columns, float other) {
    return mix(vec4(other), value, inside(i, columns));
}

// Declares an operand as INPUT does, and `vec4 load_NAME(start, i, columns)`: group i of the row from element `start`.
// Loads are unconditional, at a valid index; the caller discards values past the row's end.
#define INPUT_ROWS(INDEX, NAME, FOUR)                                                                                  \
    INPUT(INDEX, NAME, FOUR)                                                                                           \
    vec4 load_##NAME(uint start, uint i, uint columns) {                                                               \
        uvec4 c = columns_of(i);                                                                                       \
        if (VECTOR) {                                                                                                  \
            return wide(NAME##_4[c.x < columns ? (start + c.x) / 4u : 0u]);                                            \
        }                                                                                                              \
        uvec4 at = mix(uvec4(0u), start + c, inside(i, columns));                                                      \
        return SETTLED(vec4(NAME[at.x], NAME[at.y], NAME[at.z], NAME[at.w]));                                          \
    }

// Declares a result as OUTPUT does, and `void store_NAME(start, i, columns, value)`, which writes the elements inside
// the row.
#define OUTPUT_ROWS(INDEX, NAME, FOUR)                                                                                 \
    OUTPUT(INDEX, NAME, FOUR)                                                                                          \
    void store_##NAME(uint start, uint i, uint columns, vec4 value) {                                                  \
        uvec4 c = columns_of(i);                                                                                       \
        if (VECTOR) {                                                                                                  \
            if (c.x < columns) {                                                                                       \
                NAME##_4[(start + c.x) / 4u] = narrow(value);                                                          \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        if (c.x < columns) { NAME[start + c.x] = CANONICAL(value.x); }                                                 \
        if (c.y < columns) { NAME[start + c.y] = CANONICAL(value.y); }                                                 \
        if (c.z < columns) { NAME[start + c.z] = CANONICAL(value.z); }                                                 \
        if (c.w < columns) { NAME[start + c.w] = CANONICAL(value.w); }                                                 \
    }

#ifdef EVERYWHERE
// Declares an invocation's sums; adds a group of columns, or its squares, in order.
#define DECLARE_SUMS(SUM) vec4 SUM = vec4(0.0);
#define ADD_TERMS(SUM, I, QUAD) SUM.x = with_terms(SUM.x, QUAD)
#define ADD_SQUARES(SUM, I, QUAD) SUM.x = with_terms(SUM.x, settled_product(QUAD, QUAD))

float with_terms(float sum, vec4 quad) {
    return (((sum + quad.x) + quad.y) + quad.z) + quad.w;
}

// The sum of a row's sums, as a tree. Must be called by every invocation of the workgroup.
float total(vec4 sum) {
    uint slot = gl_LocalInvocationIndex;
    barrier();
    of_lanes[slot] = vec2(sum.x, 0.0);
    for (uint reach = LANES / 2u; reach > 0u; reach /= 2u) {
        barrier();
        if (lane() < reach) {
            of_lanes[slot] += of_lanes[slot + reach];
        }
    }
    barrier();
    return of_lanes[slot - lane()].x;
}
#else
// Declares an invocation's sums; adds to the one of group i.
#define DECLARE_SUMS(SUM)                                                                                              \
    vec4 SUM[TURNS];                                                                                                   \
    [[unroll]] for (uint turn = 0u; turn < TURNS; turn++) {                                                            \
        SUM[turn] = vec4(0.0);                                                                                         \
    }
#define ADD_TERMS(SUM, I, QUAD) SUM[(I) % TURNS] += QUAD
#define ADD_PRODUCTS(SUM, I, A, B) SUM[(I) % TURNS] = fma(A, B, SUM[(I) % TURNS])
#define ADD_SQUARES(SUM, I, QUAD) ADD_PRODUCTS(SUM, I, QUAD, QUAD)

// Never fused with products, of which a sum of one group consists.
float sum_of(vec4 v) {
    precise float sum = (v.x + v.y) + (v.z + v.w);
    return sum;
}

// Sums are added in groups, those SUM_GROUPS apart, then the groups.
const uint SUM_GROUPS = SUMS == 32u ? 8u : 16u;
// Whether an invocation has all sums of a group: then calls take turns with two halves of shared memory, at one barrier each.
// Otherwise the groups' sums follow those of lanes there.
const bool OWN_GROUP = LANES == SUM_GROUPS;

// Declares the sum of a row's sums, of which OWN is what an invocation has in its `turn`. Must be called by every invocation of
// the workgroup.
#define DECLARE_TOTAL(TYPE, NAME, GIVEN, OWN)                                                                          \
    shared TYPE NAME##_sums[(OWN_GROUP ? 2u : TURNS + 1u) * 256u];                                                     \
    uint NAME##_half = 0u;                                                                                             \
    TYPE NAME GIVEN {                                                                                                  \
        uint slot = gl_LocalInvocationIndex;                                                                           \
        uint first = slot - lane();                                                                                    \
        uint turn = 0u;                                                                                                \
        if (OWN_GROUP) {                                                                                               \
            TYPE sum = OWN;                                                                                            \
            [[unroll]] for (turn = 1u; turn < TURNS; turn++) {                                                         \
                sum += OWN;                                                                                            \
            }                                                                                                          \
            NAME##_sums[NAME##_half + slot] = sum;                                                                     \
            barrier();                                                                                                 \
            sum = NAME##_sums[NAME##_half + first];                                                                    \
            for (uint i = 1u; i < SUM_GROUPS; i++) {                                                                   \
                sum += NAME##_sums[NAME##_half + first + i];                                                           \
            }                                                                                                          \
            NAME##_half = 256u - NAME##_half;                                                                          \
            return sum;                                                                                                \
        }                                                                                                              \
        [[unroll]] for (turn = 0u; turn < TURNS; turn++) {                                                             \
            NAME##_sums[first * TURNS + turn * LANES + lane()] = OWN;                                                  \
        }                                                                                                              \
        barrier();                                                                                                     \
        uint start = first * TURNS + lane() % SUM_GROUPS;                                                              \
        TYPE sum = NAME##_sums[start];                                                                                 \
        for (uint i = 1u; i < SUMS / SUM_GROUPS; i++) {                                                                \
            sum += NAME##_sums[start + i * SUM_GROUPS];                                                                \
        }                                                                                                              \
        NAME##_sums[TURNS * 256u + slot] = sum;                                                                        \
        barrier();                                                                                                     \
        sum = NAME##_sums[TURNS * 256u + first];                                                                       \
        for (uint i = 1u; i < SUM_GROUPS; i++) {                                                                       \
            sum += NAME##_sums[TURNS * 256u + first + i];                                                              \
        }                                                                                                              \
        return sum;                                                                                                    \
    }

DECLARE_TOTAL(float, total, (vec4 sums[TURNS]), sum_of(sums[turn]))
// The same of two sums at once, for the shaders that need it.
#define DECLARE_TOTALS                                                                                                 \
    DECLARE_TOTAL(vec2, totals, (vec4 a[TURNS], vec4 b[TURNS]), vec2(sum_of(a[turn]), sum_of(b[turn])))

// The sum of a value over a row's lanes, in the same order.
float total(float value) {
    DECLARE_SUMS(sums)
    sums[0].x = value;
    return total(sums);
}
#endif
