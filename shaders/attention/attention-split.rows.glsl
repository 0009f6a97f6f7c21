// Softmax of attention-split: scores become weights in place, and values are added.
#include "attention/attention-rows.glsl"

// Pairs of columns of matrices per head, and of columns per lane.
const uint PAIRS = (SLICES + 1u) / 2u;
const uint LANE_PAIRS = (HEAD_DIM / 2u + LANES - 1u) / LANES;

// What the lane's rows see, and whether their sums must be plain.
Sight mine[LANE_ROWS];
bool alone[LANE_ROWS];

// A product of q and k, scaled, capped, plus the bias of key `key` for row `row` of the subgroup.
float changed(float product, uint key, uint row) {
    float scaled = product * push.scale;
    if (SOFT_CAP > 0.0) {
        scaled = SOFT_CAP * hyperbolic_tangent(scaled / SOFT_CAP);
    }
    if (BIAS) {
        int far = clamp(int(key) - own_place - int(row), -int(push.reach), int(push.reach));
        scaled += bias[int(bias_row(head)) + far];
    }
    return scaled;
}

// Turns the block's scores into weights, and rescales earlier results to the new maximum.
void soften(uint at, bool edge) {
    float factors[LANE_ROWS];
    [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
        factors[h] = query_factors[own_row + row_of(h)];
    }
    float most[LANE_ROWS];
    [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
        most[h] = largest[h];
    }
    [[unroll]] for (uint n = 0u; n < WIDE; n++) {
        [[unroll]] for (uint e = 0u; e < ELEMENTS; e++) {
            uint column = MATRIX_N * n + column_of(e);
            uint key = at + column;
            float own = changed(score[n][e] * factors[e / ROW_ELEMENTS] * key_factors[column], key, row_of(e / ROW_ELEMENTS));
            bool seen = key < key_count && (!edge || sees(mine[e / ROW_ELEMENTS], int(key)));
            score[n][e] = seen ? own : NONE;
            most[e / ROW_ELEMENTS] = max(most[e / ROW_ELEMENTS], score[n][e]);
        }
    }
    float shift[LANE_ROWS];
    float shrink[LANE_ROWS];
    [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
        OVER_ROW(max, most[h])
        // A row without visible keys so far: its weights are still powers of minus infinity.
        shift[h] = most[h] == NONE ? 0.0 : -most[h] * LOG2_E;
        shrink[h] = most[h] == largest[h] ? 1.0 : exp2(fma(largest[h], LOG2_E, shift[h]));
        largest[h] = most[h];
    }
    ANY_ROW(shrink, 1.0, shrinks)
    if (shrinks) {
        SCALE_ROWS(result, shrink)
    }
    [[unroll]] for (uint n = 0u; n < WIDE; n++) {
        [[unroll]] for (uint e = 0u; e < ELEMENTS; e++) {
            float weight = exp2(fma(score[n][e], LOG2_E, shift[e / ROW_ELEMENTS]));
            // Written as one rounding, which drivers may make of a product and a sum, or not.
            float before = n == 0u && e % ROW_ELEMENTS == 0u ? shrink[e / ROW_ELEMENTS] : 1.0;
            total[e / ROW_ELEMENTS] = fma(total[e / ROW_ELEMENTS], before, weight);
            // A hidden value has no effect, whatever it is.
            score[n][e] = weight == 0.0 ? 0.0 : weight * value_factors[MATRIX_N * n + column_of(e)];
        }
    }
}

// Adds the block's values, times the weights that `score` holds.
void add_values() {
    uint top[LANE_ROWS];
    [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
        top[h] = 0u;
    }
    [[unroll]] for (uint n = 0u; n < WIDE; n++) {
        [[unroll]] for (uint e = 0u; e < ELEMENTS; e++) {
            top[e / ROW_ELEMENTS] = max(top[e / ROW_ELEMENTS], floatBitsToUint(score[n][e]));
        }
    }
    float up[LANE_ROWS];
    float down[LANE_ROWS];
    [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
        OVER_ROW(max, top[h])
        Fit fit = fit_of(top[h]);
        up[h] = scale_of(fit);
        down[h] = inverse_of(fit);
    }
    LEFT high[WIDE];
    LEFT low[WIDE];
    [[unroll]] for (uint n = 0u; n < WIDE; n++) {
        [[unroll]] for (uint e = 0u; e < ELEMENTS; e++) {
            float own = score[n][e] * up[e / ROW_ELEMENTS];
            float rounded = nearest(own);
            high[n][e] = float16_t(rounded);
            low[n][e] = float16_t((own - rounded) * 2048.0);
        }
    }
    [[unroll]] for (uint i = 0u; i < SLICES; i++) {
        SUM part = SUM(0.0);
        RIGHT value[WIDE];
        [[unroll]] for (uint n = 0u; n < WIDE; n++) {
            RIGHT small;
            uint at = VALUES + MATRIX_N * n * STRIDE + own_column / 8u + TERM_QUADS * i;
            coopMatLoad(value[n], tile, at, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            coopMatLoad(small, tile, at + LOW, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            part = coopMatMulAdd(high[n], small, part);
            part = coopMatMulAdd(low[n], value[n], part);
        }
        part = part * LOW_UNIT;
        [[unroll]] for (uint n = 0u; n < WIDE; n++) {
            part = coopMatMulAdd(high[n], value[n], part);
        }
        [[unroll]] for (uint e = 0u; e < ELEMENTS; e++) {
            result[i][e] = fma(part[e], down[e / ROW_ELEMENTS], result[i][e]);
        }
    }
}
