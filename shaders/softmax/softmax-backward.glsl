#version 460
// Computes: y = p (g - sum(g p)), where p is the result of softmax; all [rows, columns].
// Grid: x = ceil(rows / (256 / LANES)), continued along y.
// Reduction order: by held-rows.glsl, fixed by the columns: quads, sums, groups of sums.
// Assumes: QUADS cover the row if HELD; with VECTOR, columns are a multiple of 4.
#include "counts.glsl"
#include "rows/held-rows.glsl"

INPUT_ROWS(1, g, vec4)
INPUT_ROWS(2, p, vec4)
OUTPUT_ROWS(3, y, vec4)

ROW_PUSH

vec4 held_g[QUADS];
vec4 held_p[QUADS];

void main() {
    OWN_ROW

    DECLARE_SUMS(sum)
    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 gradient = load_g(start, i, columns);
        vec4 value = load_p(start, i, columns);
        if (HELD) {
            held_g[i] = gradient;
            held_p[i] = value;
        }
        ADD_TERMS(sum, i, within(gradient * value, i, columns, 0.0));
    }
    float dot_product = total(sum);

    [[unroll]] for (uint i = 0u; i < count; i++) {
        vec4 gradient, value;
        if (HELD) {
            gradient = held_g[i];
            value = held_p[i];
        } else {
            gradient = load_g(start, i, columns);
            value = load_p(start, i, columns);
        }
        store_y(start, i, columns, value * (gradient - dot_product));
    }
}
