#version 460
// Computes: (x1 cos - x2 sin, x2 cos + x1 sin) of each head's first half x1 and second half x2; x [B, S, H, D], or with
// COUNTED [T, H, D].
// Grid: x = workgroups of 256 invocations that together loop over all pairs, or over quads of pairs.
// Reduction order: none.
// Assumes: fewer than 2^32 elements; with VECTOR, D a multiple of 8.
//# stored = ["float32", "float16", "bfloat16"]
//#
//# [builds]
//# rope-counted = { define = "COUNTED" }
#include "stored.glsl"
#ifdef COUNTED
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
    // Pairs of all heads, or quads of them; with COUNTED those of one row.
    uint pairs;
    // Of one head.
    uint row_pairs;
    uint heads;
    // Rows of the angle tables.
    uint angles;
#ifdef COUNTED
    uint rows_of;
#endif
} push;

void main() {
    uint step = 256u * gl_NumWorkGroups.x;
#ifdef COUNTED
    uint angles = batch_rows(push.rows_of, 0u);
    uint pairs = push.pairs * angles;
#else
    uint angles = push.angles;
    uint pairs = push.pairs;
#endif
    for (uint pair = gl_GlobalInvocationID.x; pair < pairs; pair += step) {
        uint row = pair / push.row_pairs;
        uint column = pair % push.row_pairs;
        uint angle = row / push.heads % angles * push.row_pairs + column;
        uint first = 2u * row * push.row_pairs + column;
        uint second = first + push.row_pairs;
        if (VECTOR) {
            vec4 x1 = wide(x_4[first]);
            vec4 x2 = wide(x_4[second]);
            y_4[first] = narrow(x1 * cosine_4[angle] - x2 * sine_4[angle]);
            y_4[second] = narrow(x2 * cosine_4[angle] + x1 * sine_4[angle]);
        } else {
            float x1 = x[first];
            float x2 = x[second];
            y[first] = x1 * cosine[angle] - x2 * sine[angle];
            y[second] = x2 * cosine[angle] + x1 * sine[angle];
        }
    }
}
