// Softmax of attention-matrix where four neighbouring lanes hold two whole rows of a matrix, so that scores become weights
// in place.
#include "attention/attention-quads.glsl"

// What the lane's two rows see.
Sight mine[2];

void begin(uint key_count) {
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
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
            [[unroll]] for (uint e = 0u; e < 8u; e++) {
                score[n][e] = changed(score[n][e], at + 16u * n + column_of(e), row_of(e / 4u));
            }
        }
    }
    if (edge || at + KEYS > key_count) {
        [[unroll]] for (uint n = 0u; n < WIDE; n++) {
            [[unroll]] for (uint e = 0u; e < 8u; e++) {
                uint key = at + 16u * n + column_of(e);
                bool seen = key < key_count && (!HIDES || sees(mine[e / 4u], int(key)));
                score[n][e] = seen ? score[n][e] : NONE;
            }
        }
    }
    float most[2] = largest;
    [[unroll]] for (uint n = 0u; n < WIDE; n++) {
        [[unroll]] for (uint e = 0u; e < 8u; e++) {
            most[e / 4u] = max(most[e / 4u], score[n][e]);
        }
    }
    float shift[2];
    float shrink[2];
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
        most[h] = max(most[h], subgroupShuffleXor(most[h], 1u));
        most[h] = max(most[h], subgroupShuffleXor(most[h], 2u));
        // A row without visible keys so far: its weights are still powers of minus infinity.
        shift[h] = most[h] == NONE ? 0.0 : -most[h] * scale;
        shrink[h] = exp2(fma(largest[h], scale, shift[h]));
    }
    if (subgroupAny(largest[0] != most[0] || largest[1] != most[1])) {
        SCALE_ROWS(result, shrink)
        [[unroll]] for (uint h = 0u; h < 2u; h++) {
            total[h] *= shrink[h];
            largest[h] = most[h];
        }
    }
    [[unroll]] for (uint n = 0u; n < WIDE; n++) {
        [[unroll]] for (uint e = 0u; e < 8u; e++) {
            float w = exp2(fma(score[n][e], scale, shift[e / 4u]));
            total[e / 4u] += w;
            weight[n][e] = ELEMENT(w);
        }
    }
}

// Adds the NaN and infinite values, which the block's product excluded, to the rows that see them.
void add_others(uint at, uint key_count, uint key_first, uint v_column) {
    for (uint key = at; key < min(at + KEYS, key_count); key++) {
        [[unroll]] for (uint i = 0u; i < SLICES; i++) {
            [[unroll]] for (uint e = 0u; e < 8u; e++) {
                uint column = 16u * i + column_of(e);
                uint word = v[(key_first + key) * push.v_stride + v_column + column / 8u][column % 8u / 2u];
                float value = wide(uvec2(word, 0u))[column % 2u];
                bool other = (floatBitsToUint(value) & 0x7f800000u) == 0x7f800000u;
                result[i][e] += other && sees(mine[e / 4u], int(key)) ? value : 0.0;
            }
        }
    }
}

void divide() {
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
        total[h] += subgroupShuffleXor(total[h], 1u);
        total[h] += subgroupShuffleXor(total[h], 2u);
        // The weights of a row without keys have a sum of zero.
        total[h] = total[h] == 0.0 ? 0.0 : 1.0 / total[h];
    }
    SCALE_ROWS(result, total)
}

#if STORED == BFLOAT16
// Moves the results, rounded, to the subgroup's rows of shared memory: accumulators have no bfloat16.
void put() {
    [[unroll]] for (uint i = 0u; i < SLICES; i++) {
        [[unroll]] for (uint e = 0u; e < 8u; e += 2u) {
            uint column = 16u * i + column_of(e);
            uvec2 pair = narrow(vec4(result[i][e], result[i][e + 1u], 0.0, 0.0));
            tile[(own_row + row_of(e / 4u)) * STRIDE + column / 8u][column % 8u / 2u] = pair.x;
        }
    }
}
#endif
