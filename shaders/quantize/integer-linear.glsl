#version 460
// Computes: y[m, n] = sum_k q[m, k] weight[n, k], with GROUPS sum_g (sum_{k in g} q[m, k] weight[n, k]) /
// weight_scale[n, g] as a float; q [rows, depth] int8, weight [columns, row_bytes] bytes of integers.
// Grid: x = ceil(rows * columns / push.places_per_group); 256 invocations loop over the elements of y.
// Reduction order: of integers irrelevant, as their sums are exact; groups from the first to the last.
// Assumes: elements < 2^32, depth < 2^17; with WHOLE, depth and group are multiples of 4.
//# variants = [{ name = "dot", needs = ["integer_dot_product"], defines = { DOT = "1" } }, {}]
//#
//# [builds]
//# quantized-linear = { define = "GROUPS" }
#ifdef DOT
#extension GL_EXT_spirv_intrinsics : require
#endif
#include "levels.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const bool WHOLE = false;
layout(constant_id = 1) const uint LEVELS = INT8;

layout(std430, binding = 0) readonly buffer Q { uint q[]; };
layout(std430, binding = 1) readonly buffer Weight { uint weight[]; };
#ifdef GROUPS
layout(std430, binding = 2) readonly buffer WeightScale { float weight_scale[]; };
layout(std430, binding = 3) writeonly buffer Y { float y[]; };
#else
layout(std430, binding = 2) writeonly buffer Y { int y[]; };
#endif

layout(push_constant) uniform Push {
    uint places;
    uint columns;
    uint depth;
    uint row_bytes;
    uint places_per_group;
#ifdef GROUPS
    // Columns of a group, and groups of a row.
    uint group;
    uint per_row;
#endif
} push;

#ifdef DOT
// OpSDot of two packed vectors of four signed bytes.
spirv_instruction(capabilities = [6019, 6018], id = 4450)
int signed_dot(uint a, uint b, spirv_literal uint format);
#endif

int dot_of_four(uint a, uint b) {
#ifdef DOT
    return signed_dot(a, b, 0u);
#else
    int sum = 0;
    for (uint i = 0u; i < 4u; i++) {
        sum += integer_at(a, i) * integer_at(b, i);
    }
    return sum;
#endif
}

// Integers 4 quad .. 4 quad + 3 of a row of the weight, one per byte.
uint four_of_weight(uint row, uint quad) {
    if (LEVELS == INT8) {
        return weight[row * (push.depth / 4u) + quad];
    }
    uint place = row * push.row_bytes + (LEVELS == TERNARY ? quad : quad / 2u);
    uint codes = byte_of(weight[place / 4u], place);
    // Each code into a byte of its own, 0, 1 and 2 of ternary values, 0 and 2 of signs.
    if (LEVELS == TERNARY) {
        codes = (codes | codes << 6u | codes << 12u | codes << 18u) & 0x03030303u;
    } else {
        codes = bitfieldExtract(codes, int(4u * (quad % 2u)), 4);
        codes = ((codes | codes << 7u | codes << 14u | codes << 21u) & 0x01010101u) * 2u;
    }
    // Less 1 in each byte, without a borrow.
    return (codes + 0x7f7f7f7fu) ^ 0x80808080u;
}

int weight_at(uint row, uint k) {
    uint place = row * push.row_bytes + k / per_byte(LEVELS);
    uint word = weight[place / 4u];
    return LEVELS == INT8 ? integer_at(word, place) : level_in(LEVELS, byte_of(word, place), k);
}

// The sum of products over columns first .. end - 1.
int product(uint row, uint column, uint first, uint end) {
    uint start = row * push.depth;
    int sum = 0;
    if (WHOLE) {
        for (uint quad = first / 4u; quad < end / 4u; quad++) {
            sum += dot_of_four(q[start / 4u + quad], four_of_weight(column, quad));
        }
        return sum;
    }
    for (uint k = first; k < end; k++) {
        sum += integer_at(q[(start + k) / 4u], start + k) * weight_at(column, k);
    }
    return sum;
}

void main() {
    uint first = gl_WorkGroupID.x * push.places_per_group;
    uint last = min(first + push.places_per_group, push.places);
    for (uint place = first + gl_LocalInvocationIndex; place < last; place += 256u) {
        uint row = place / push.columns, column = place % push.columns;
#ifdef GROUPS
        float sum = 0.0;
        uint group = column * push.per_row;
        for (uint start = 0u; start < push.depth; start += push.group) {
            int part = product(row, column, start, min(start + push.group, push.depth));
            sum += float(part) / weight_scale[group];
            group++;
        }
        y[place] = sum;
#else
        y[place] = product(row, column, 0u, push.depth);
#endif
    }
}
