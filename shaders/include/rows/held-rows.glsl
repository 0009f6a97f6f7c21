// Rows shared among LANES consecutive invocations (32 or 256), 256 / LANES rows per workgroup; each invocation has
// QUADS groups of four columns, which it keeps in registers if HELD, so that a row is read once. Needs no subgroup
// operation: any subgroup size gives the same bits. `src/backend/vulkan/kernels/rows.rs` chooses the constants from the
// columns alone.
#extension GL_EXT_control_flow_attributes : require
#include "stored.glsl"

#ifdef EVERYWHERE
// 64 sums of a row, of columns 64 apart in order, whatever the number of columns.
const uint LANES = 64;
#else
layout(constant_id = 0) const uint LANES = 32;
#endif
layout(constant_id = 1) const uint QUADS = 8;
layout(constant_id = 2) const bool HELD = true;
// Whether rows start at multiples of four elements.
#ifdef EVERYWHERE
const bool VECTOR = false;
#else
ALIGNED_ROWS(VECTOR, 3);
#endif

#include "rows/row-lanes.glsl"

// What the invocation keeps of its row.
vec4 held[QUADS];

void hold(uint i, vec4 quad) {
    if (HELD) {
        held[i] = quad;
    }
}

// Groups of four columns per invocation.
uint quads(uint columns) {
    return HELD ? QUADS : (columns + 4u * LANES - 1u) / (4u * LANES);
}

// Begins the main function of a shader whose push block has ROW_MEMBERS: the row, its columns, its first element and its
// groups of columns. Invocations past the last row take part in the barriers with no columns.
#define OWN_ROW                                                                                                        \
    uint row = own_row();                                                                                              \
    uint columns = row < batch_rows(push.rows_of, push.rows) ? push.columns : 0u;                                      \
    uint start = row * push.columns;                                                                                   \
    uint count = quads(push.columns);

// Columns of group i: adjacent if VECTOR, else LANES apart, so that neighbouring invocations read neighbouring columns.
uvec4 columns_of(uint i) {
    const uvec4 places = uvec4(0u, 1u, 2u, 3u);
    return VECTOR ? 4u * (i * LANES + lane()) + places : 4u * i * LANES + lane() + LANES * places;
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
// Add a group of columns, or its squares, to a lane's sum, in order.
#define ADD_TERMS(SUM, QUAD) SUM.x = with_terms(SUM.x, QUAD)
#define ADD_SQUARES(SUM, QUAD) SUM.x = with_terms(SUM.x, settled_product(QUAD, QUAD))

float with_terms(float sum, vec4 quad) {
    return (((sum + quad.x) + quad.y) + quad.z) + quad.w;
}

float sum_of(vec4 v) {
    return v.x;
}

// Sums of two values over a row's lanes, as a tree. Must be called by every invocation of the workgroup.
vec2 totals(vec2 value) {
    uint slot = gl_LocalInvocationIndex;
    barrier();
    of_lanes[slot] = value;
    for (uint reach = LANES / 2u; reach > 0u; reach /= 2u) {
        barrier();
        if (lane() < reach) {
            of_lanes[slot] += of_lanes[slot + reach];
        }
    }
    barrier();
    return of_lanes[slot - lane()];
}
#else
#define ADD_TERMS(SUM, QUAD) SUM += QUAD
#define ADD_SQUARES(SUM, QUAD) SUM = fma(QUAD, QUAD, SUM)

float sum_of(vec4 v) {
    return (v.x + v.y) + (v.z + v.w);
}

// Sums of two values over a row's lanes. Must be called by every invocation of the workgroup.
vec2 totals(vec2 value) {
    uint slot = gl_LocalInvocationIndex;
    uint first = slot - lane();
    of_lanes[slot] = value;
    barrier();
    vec2 sum = of_lanes[first + lane() % GROUPS];
    for (uint i = 1u; i < NEAR; i++) {
        sum += of_lanes[first + lane() % GROUPS + i * GROUPS];
    }
    of_groups[slot] = sum;
    barrier();
    sum = of_groups[first];
    for (uint i = 1u; i < GROUPS; i++) {
        sum += of_groups[first + i];
    }
    return sum;
}
#endif

float total(float value) {
    return totals(vec2(value, 0.0)).x;
}
