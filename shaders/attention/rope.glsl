#version 460
// Computes: (x1 cos - x2 sin, x2 cos + x1 sin) of each head's first half x1 and second half x2; x [B, S, H, D]. With ROWS
// x is [T, H, D], y has its leading heads, or all and then zeros, and of each the columns after the rotated ones are copied.
// Grid: x = workgroups of 256 invocations that together loop over all pairs, or over quads of pairs.
// Reduction order: none.
// Assumes: fewer than 2^32 elements; with VECTOR, D and the rotated columns multiples of 8.
//# stored = ["float32", "float16", "bfloat16"]
//# numerics = ["run", "everywhere"]
//#
//# [builds]
//# rope-rows = { define = "ROWS" }
#include "stored.glsl"
#ifdef ROWS
#include "counts.glsl"
#define FIRST 1
#else
#define FIRST 0
#endif

layout(local_size_x = 256) in;
ALIGNED_ROWS(VECTOR, 0);

INPUT(FIRST, x, QUAD)
INPUT(FIRST + 1, cosine, vec4)
INPUT(FIRST + 2, sine, vec4)
OUTPUT(FIRST + 3, y, QUAD)

layout(push_constant) uniform Push {
    // Pairs of all heads, or quads of them; with ROWS those of one row of y.
    uint pairs;
    // Of one head.
    uint row_pairs;
    uint heads;
    // Rows of the angle tables.
    uint angles;
#ifdef ROWS
    uint rows_of;
    // Heads of x, and rotated pairs of each.
    uint stored;
    uint turned;
#endif
} push;

// What is not rotated: its bits, or what an operation reads of it.
#ifdef EVERYWHERE
#define COPIED(NARROW, WIDE, QUAD) NARROW(WIDE(QUAD))
#else
#define COPIED(NARROW, WIDE, QUAD) QUAD
#endif

void main() {
    uint step = 256u * gl_NumWorkGroups.x;
#ifdef ROWS
    uint angles = batch_rows(push.rows_of, push.angles);
    uint pairs = push.pairs * angles;
#else
    uint angles = push.angles;
    uint pairs = push.pairs;
#endif
    for (uint pair = gl_GlobalInvocationID.x; pair < pairs; pair += step) {
        uint row = pair / push.row_pairs;
        uint column = pair % push.row_pairs;
#ifdef ROWS
        bool turns = column < push.turned;
        uint angle = row / push.heads * push.turned + column;
        uint first = 2u * row * push.row_pairs + (turns ? column : 2u * column);
        uint second = first + (turns ? push.turned : 1u);
        uint skipped = row / push.heads * (push.stored - push.heads) * 2u * push.row_pairs;
        uint from = first + skipped;
        uint with = second + skipped;
        if (row % push.heads >= push.stored) {
            if (VECTOR) {
                y_4[first] = narrow(vec4(0.0));
                y_4[second] = narrow(vec4(0.0));
            } else {
                y[first] = 0.0;
                y[second] = 0.0;
            }
            continue;
        }
        if (!turns) {
            if (VECTOR) {
                y_4[first] = COPIED(narrow, wide, x_4[from]);
                y_4[second] = COPIED(narrow, wide, x_4[with]);
            } else {
                y[first] = CANONICAL(SETTLED(x[from]));
                y[second] = CANONICAL(SETTLED(x[with]));
            }
            continue;
        }
#else
        uint angle = row / push.heads % angles * push.row_pairs + column;
        uint first = 2u * row * push.row_pairs + column;
        uint second = first + push.row_pairs;
        uint from = first;
        uint with = second;
#endif
        if (VECTOR) {
            vec4 x1 = wide(x_4[from]);
            vec4 x2 = wide(x_4[with]);
            y_4[first] = narrow(PRODUCT(x1, SETTLED(cosine_4[angle])) - PRODUCT(x2, SETTLED(sine_4[angle])));
            y_4[second] = narrow(PRODUCT(x2, SETTLED(cosine_4[angle])) + PRODUCT(x1, SETTLED(sine_4[angle])));
        } else {
            float x1 = SETTLED(x[from]);
            float x2 = SETTLED(x[with]);
            y[first] = CANONICAL(PRODUCT(x1, SETTLED(cosine[angle])) - PRODUCT(x2, SETTLED(sine[angle])));
            y[second] = CANONICAL(PRODUCT(x2, SETTLED(cosine[angle])) + PRODUCT(x1, SETTLED(sine[angle])));
        }
    }
}
