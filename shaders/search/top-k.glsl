#version 460
// Computes: y, places [rows, parts, COUNT], of each part of a row of x [rows, columns] the COUNT largest and their columns, the first of
// equal ones first; NaN counts as the largest, and what mask leaves out not at all. Built with JOIN: the same of parts [rows, columns],
// whose columns in the whole row are part_places, none -1.
// Grid: x = rows * parts, continued along y.
// Reduction order: none; what is chosen does not depend on the order in which it is met.
// Assumes: COUNT from 1 to 1000, a part of at most 65,536 columns; equal numbers of parts in the order of their places.
//# numerics = ["run", "everywhere"]
//#
//# [builds]
//# top-k-join = { define = "JOIN", numerics = ["run", "everywhere"] }
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint COUNT = 10;
// Whether rows and parts start at multiples of four elements.
layout(constant_id = 2) const bool VECTOR = false;
#ifndef JOIN
// Whether there is a mask.
layout(constant_id = 1) const bool MASKED = false;
#endif

// The bits of float32.
#ifdef JOIN
layout(std430, binding = 0) readonly buffer Parts { uint parts[]; };
layout(std430, binding = 0) readonly buffer PartsQuads { uvec4 parts_4[]; };
layout(std430, binding = 1) readonly buffer PartPlaces { uint part_places[]; };
#define BITS(at) parts[at]
#define QUAD_BITS(at) parts_4[at]
#else
layout(std430, binding = 0) readonly buffer X { uint x[]; };
layout(std430, binding = 0) readonly buffer XQuads { uvec4 x_4[]; };
#define BITS(at) x[at]
#define QUAD_BITS(at) x_4[at]
layout(std430, binding = 1) readonly buffer Mask { uint mask[]; };
#endif
layout(std430, binding = 2) writeonly buffer Y { uint y[]; };
layout(std430, binding = 3) writeonly buffer Places { uint places[]; };

layout(push_constant) uniform Push {
    uint rows;
    uint columns;
    // Columns of a part.
    uint part;
    uint parts;
} push;

// Columns that are read at a time, those between two looks at the candidates, and the most of these.
#define STEP 1024u
#define BLOCK 8192u
#define MOST 2032u
const uint NONE = 0xffffffffu;
const uint NAN_KEY = 0xffffffffu;

// Elements among which a first bound is looked for.
#define FIRST 8192u

// The candidates: keys, and places in the row.
shared uint keys[MOST + 4u];
shared uint own_places[MOST];
shared uint agreed_count;
// The least key that is taken. Once COUNT are held, more than that of the last: places are met in order, so that an equal one
// comes after it.
#define LEAST keys[MOST]

// A number that grows with the float of these bits; 0 belongs to none.
uint key_of(uint bits) {
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return NAN_KEY;
    }
    bits = bits == 0x80000000u ? 0u : bits;
    return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

uint bits_of(uint key) {
    if (key == NAN_KEY) {
        return 0x7fc00000u;
    }
    return (key & 0x80000000u) != 0u ? key & 0x7fffffffu : ~key;
}

// Whether candidate i comes after candidate k.
bool is_after(uint i, uint k) {
    return keys[i] < keys[k] || (keys[i] == keys[k] && own_places[i] > own_places[k]);
}

// Puts the larger of two candidates first; those from `count` on are none.
void order(uint i, uint k, uint count) {
    if (k < count && is_after(i, k)) {
        uint key = keys[i], place = own_places[i];
        keys[i] = keys[k];
        own_places[i] = own_places[k];
        keys[k] = key;
        own_places[k] = place;
    }
}

// Sorts the candidates, the first `count`, the largest first, and keeps COUNT of them: merges of neighbouring runs, the second
// of which is met from its end.
void keep_largest(uint count) {
    uint me = gl_LocalInvocationIndex;
    barrier();
    for (uint whole = 2u; whole < 2u * count; whole *= 2u) {
        for (uint pair = me; pair < count; pair += 256u) {
            uint first = pair / (whole / 2u) * whole, own = pair % (whole / 2u);
            order(first + own, first + whole - 1u - own, count);
        }
        barrier();
        for (uint reach = whole / 4u; reach > 0u; reach /= 2u) {
            for (uint pair = me; pair < count; pair += 256u) {
                uint i = pair / reach * 2u * reach + pair % reach;
                order(i, i + reach, count);
            }
            barrier();
        }
    }
    if (me == 0u) {
        agreed_count = min(count, COUNT);
        LEAST = max(LEAST, count < COUNT ? 1u : min(keys[COUNT - 1u], NAN_KEY - 1u) + 1u);
    }
    barrier();
}

// An element that is none before `end`.
const uint ABSENT = 0xff800000u;

// Four neighbouring elements; those from `end` on are minus infinity.
uvec4 quad_at(uint row, uint column, uint end) {
    uint at = row * push.columns + min(column, end - 1u);
    uvec4 quad;
    if (VECTOR) {
        quad = QUAD_BITS(at / 4u);
    } else {
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            quad[i] = BITS(row * push.columns + min(column + i, end - 1u));
        }
    }
    return mix(uvec4(ABSENT), quad, lessThan(column + uvec4(0u, 1u, 2u, 3u), uvec4(end)));
}

// The key of an element, 0 if it is left out, and its place in the row.
uvec2 candidate(uint bits, uint row, uint column, uint end) {
#ifdef JOIN
    uint place = part_places[row * push.columns + min(column, end - 1u)];
    bool counts = place != NONE;
#else
    uint place = column;
    bool counts = !MASKED || mask[min(column, end - 1u)] != 0u;
#endif
    return uvec2(column < end && counts ? key_of(bits) : 0u, place);
}

// Takes the candidates among the elements from `start` on, as far as there is room; all are counted.
void take(uint row, uint start, uint end, uint elements) {
    uint me = gl_LocalInvocationIndex, least = LEAST;
    // Fewer instructions than keys; what it lets through is compared by key. Not below NaN is every number.
    float bound = uintBitsToFloat(bits_of(least));
    // All are read before one is compared.
    uvec4 quads[BLOCK / STEP];
    [[unroll]] for (uint step = 0u; step < elements / STEP; step++) {
        quads[step] = quad_at(row, start + step * STEP + 4u * me, end);
    }
    [[unroll]] for (uint step = 0u; step < elements / STEP; step++) {
        uint column = start + step * STEP + 4u * me;
        uvec4 quad = quads[step];
        bvec4 below = lessThan(uintBitsToFloat(quad), vec4(bound));
        if (!all(below)) {
            [[unroll]] for (uint i = 0u; i < 4u; i++) {
                uvec2 found = below[i] ? uvec2(0u) : candidate(quad[i], row, column + i, end);
                if (found.x >= least) {
                    uint slot = atomicAdd(agreed_count, 1u);
                    if (slot < MOST) {
                        keys[slot] = found.x;
                        own_places[slot] = found.y;
                    }
                }
            }
        }
    }
}

void main() {
    uint me = gl_LocalInvocationIndex;
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (group >= push.rows * push.parts) {
        return;
    }
    uint row = group / push.parts, first = group % push.parts * push.part;
    uint end = min(first + push.part, push.columns);
    if (me == 0u) {
        agreed_count = 0u;
        LEAST = 1u;
    }
    barrier();
    if (COUNT <= 256u && end - first > STEP) {
        // The largest of each invocation's first elements: COUNT elements are no smaller than the last of COUNT of these.
        uint most = 0u;
        for (uint start = first; start < first + FIRST; start += STEP) {
            uvec4 quad = quad_at(row, start + 4u * me, end);
            [[unroll]] for (uint i = 0u; i < 4u; i++) {
                most = max(most, candidate(quad[i], row, start + 4u * me + i, end).x);
            }
        }
        keys[me] = most;
        own_places[me] = me;
        keep_largest(256u);
        if (me == 0u) {
            agreed_count = 0u;
            LEAST = max(keys[COUNT - 1u], 1u);
        }
        barrier();
    }
    uint held = 0u;
    for (uint block = first; block < end; block += BLOCK) {
        take(row, block, end, BLOCK);
        barrier();
        uint count = agreed_count;
        barrier();
        if (count > MOST) {
            // More than there is room for: the block again, with a look at them after each step.
            if (me == 0u) {
                agreed_count = held;
            }
            count = held;
            barrier();
            for (uint start = block; start < min(block + BLOCK, end); start += STEP) {
                if (count > MOST - STEP) {
                    keep_largest(count);
                }
                take(row, start, end, STEP);
                barrier();
                count = agreed_count;
                barrier();
            }
        }
        if (count > MOST / 2u) {
            keep_largest(count);
            count = min(count, COUNT);
        }
        held = count;
    }
    barrier();
    keep_largest(agreed_count);
    uint count = agreed_count;
    for (uint i = me; i < COUNT; i += 256u) {
        bool found = i < count;
        y[group * COUNT + i] = found ? bits_of(keys[i]) : ABSENT;
        places[group * COUNT + i] = found ? own_places[i] : NONE;
    }
}
