// Softmax of attention-matrix where neighbouring lanes hold whole rows of a matrix, so that scores become weights
// in place.
#include "attention/attention-rows.glsl"

// What the lane's rows see.
Sight mine[LANE_ROWS];

void begin(uint key_count) {
    [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
        largest[h] = NONE;
        total[h] = 0.0;
        mine[h] = sight_of(own_place + int(row_of(h)), int(key_count));
    }
}

// Turns scores into weights and rescales earlier results to the new maximum; `edge` if some row may not see the whole
// block.
void soften(uint at, uint key_count, bool edge) {
    if (CHANGES) {
        [[unroll]] for (uint n = 0u; n < WIDE; n++) {
            [[unroll]] for (uint e = 0u; e < ELEMENTS; e++) {
                score[n][e] = changed(score[n][e], at + MATRIX_N * n + column_of(e), row_of(e / ROW_ELEMENTS));
            }
        }
    }
    if (edge || at + KEYS > key_count) {
        [[unroll]] for (uint n = 0u; n < WIDE; n++) {
            [[unroll]] for (uint e = 0u; e < ELEMENTS; e++) {
                uint key = at + MATRIX_N * n + column_of(e);
                bool seen = key < key_count && (!HIDES || sees(mine[e / ROW_ELEMENTS], int(key)));
                score[n][e] = seen ? score[n][e] : NONE;
            }
        }
    }
    float most[LANE_ROWS];
    [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
        most[h] = largest[h];
    }
    [[unroll]] for (uint n = 0u; n < WIDE; n++) {
        [[unroll]] for (uint e = 0u; e < ELEMENTS; e++) {
            most[e / ROW_ELEMENTS] = max(most[e / ROW_ELEMENTS], score[n][e]);
        }
    }
    float shift[LANE_ROWS];
    float shrink[LANE_ROWS];
    [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
        OVER_ROW(max, most[h])
        // A row without visible keys so far: its weights are still powers of minus infinity.
        shift[h] = most[h] == NONE ? 0.0 : -most[h] * scale;
        shrink[h] = exp2(fma(largest[h], scale, shift[h]));
    }
    bool grows = false;
    [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
        grows = grows || largest[h] != most[h];
    }
    if (subgroupAny(grows)) {
        SCALE_ROWS(result, shrink)
        [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
            total[h] *= shrink[h];
            largest[h] = most[h];
        }
    }
    [[unroll]] for (uint n = 0u; n < WIDE; n++) {
        [[unroll]] for (uint e = 0u; e < ELEMENTS; e++) {
            float w = exp2(fma(score[n][e], scale, shift[e / ROW_ELEMENTS]));
            total[e / ROW_ELEMENTS] += w;
            weight[n][e] = ELEMENT(w);
        }
    }
}

// Adds the NaN and infinite values, which the block's product excluded, to the rows that see them.
void add_others(uint at, uint key_count, uint key_first, uint v_column) {
    for (uint key = at; key < min(at + KEYS, key_count); key++) {
        [[unroll]] for (uint i = 0u; i < SLICES; i++) {
            [[unroll]] for (uint e = 0u; e < ELEMENTS; e++) {
                uint column = min(own_column + MATRIX_N * i + column_of(e), HEAD_DIM - 1u);
                uint v_at = (key_first + key) * push.v_stride + v_column + column / UNIT;
                uint word = unit_of_v(v_at, column % 8u / UNIT * UNIT)[column % 8u / 2u];
                float value = wide(uvec2(word, 0u))[column % 2u];
                bool other = (floatBitsToUint(value) & 0x7f800000u) == 0x7f800000u;
                result[i][e] += other && sees(mine[e / ROW_ELEMENTS], int(key)) ? value : 0.0;
            }
        }
    }
}

void divide() {
    [[unroll]] for (uint h = 0u; h < LANE_ROWS; h++) {
        OVER_ROW(PLUS, total[h])
        // The weights of a row without keys have a sum of zero.
        total[h] = total[h] == 0.0 ? 0.0 : 1.0 / total[h];
    }
    SCALE_ROWS(result, total)
}

#if STORED == BFLOAT16
// Moves the results, rounded, to the subgroup's rows of shared memory: accumulators have no bfloat16.
void put() {
    [[unroll]] for (uint i = 0u; i < SLICES; i++) {
        [[unroll]] for (uint e = 0u; e < ELEMENTS; e += PAIR) {
            uint column = own_column + MATRIX_N * i + column_of(e);
            vec2 pair = PAIR_OF(result[i], e);
            if (has_pair()) {
                uint row = own_row + row_of(e / ROW_ELEMENTS);
                tile[row * STRIDE + column / 8u][column % 8u / 2u] = narrow(vec4(pair, 0.0, 0.0)).x;
            }
        }
    }
}
#endif
