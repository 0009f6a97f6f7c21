// Softmax of attention-split: scores become weights in place, and values are added.
#include "attention/attention-quads.glsl"

// Pairs of columns of matrices per head.
const uint PAIRS = (SLICES + 1u) / 2u;

// What the lane's two rows see, and whether their sums must be plain.
Sight mine[2];
bool alone[2];

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
    float factors[2] = float[2](query_factors[own_row + row_of(0u)], query_factors[own_row + row_of(1u)]);
    float most[2] = largest;
    [[unroll]] for (uint n = 0u; n < WIDE; n++) {
        [[unroll]] for (uint e = 0u; e < 8u; e++) {
            uint column = 16u * n + column_of(e);
            uint key = at + column;
            float own = changed(score[n][e] * factors[e / 4u] * key_factors[column], key, row_of(e / 4u));
            bool seen = key < key_count && (!edge || sees(mine[e / 4u], int(key)));
            score[n][e] = seen ? own : NONE;
            most[e / 4u] = max(most[e / 4u], score[n][e]);
        }
    }
    float shift[2];
    float shrink[2];
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
        most[h] = max(most[h], subgroupShuffleXor(most[h], 1u));
        most[h] = max(most[h], subgroupShuffleXor(most[h], 2u));
        // A row without visible keys so far: its weights are still powers of minus infinity.
        shift[h] = most[h] == NONE ? 0.0 : -most[h] * LOG2_E;
        shrink[h] = most[h] == largest[h] ? 1.0 : exp2(fma(largest[h], LOG2_E, shift[h]));
        total[h] *= shrink[h];
        largest[h] = most[h];
    }
    if (subgroupAny(shrink[0] != 1.0 || shrink[1] != 1.0)) {
        SCALE_ROWS(result, shrink)
    }
    [[unroll]] for (uint n = 0u; n < WIDE; n++) {
        [[unroll]] for (uint e = 0u; e < 8u; e++) {
            float weight = exp2(fma(score[n][e], LOG2_E, shift[e / 4u]));
            total[e / 4u] += weight;
            // A hidden value has no effect, whatever it is.
            score[n][e] = weight == 0.0 ? 0.0 : weight * value_factors[16u * n + column_of(e)];
        }
    }
}

// Adds the block's values, times the weights that `score` holds.
void add_values() {
    uint top[2] = uint[2](0u, 0u);
    [[unroll]] for (uint n = 0u; n < WIDE; n++) {
        [[unroll]] for (uint e = 0u; e < 8u; e++) {
            top[e / 4u] = max(top[e / 4u], floatBitsToUint(score[n][e]));
        }
    }
    float up[2];
    float down[2];
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
        top[h] = max(top[h], subgroupShuffleXor(top[h], 1u));
        top[h] = max(top[h], subgroupShuffleXor(top[h], 2u));
        Fit fit = fit_of(top[h]);
        up[h] = scale_of(fit);
        down[h] = inverse_of(fit);
    }
    LEFT high[WIDE];
    LEFT low[WIDE];
    [[unroll]] for (uint n = 0u; n < WIDE; n++) {
        [[unroll]] for (uint e = 0u; e < 8u; e++) {
            float own = score[n][e] * up[e / 4u];
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
            uint at = VALUES + 16u * n * STRIDE + 2u * i;
            coopMatLoad(value[n], tile, at, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            coopMatLoad(small, tile, at + LOW, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            part = coopMatMulAdd(high[n], small, part);
            part = coopMatMulAdd(low[n], value[n], part);
        }
        part = part * LOW_UNIT;
        [[unroll]] for (uint n = 0u; n < WIDE; n++) {
            part = coopMatMulAdd(high[n], value[n], part);
        }
        [[unroll]] for (uint e = 0u; e < 8u; e++) {
            result[i][e] = fma(part[e], down[e / 4u], result[i][e]);
        }
    }
}
