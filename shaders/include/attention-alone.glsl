// Rows of attention-split that see a number which cannot be split, by plain sums.

// Rows that see a key or a value of the block whose sums must be plain.
void mark(uint at) {
    for (uint key = 0u; key < min(KEYS, key_count - at); key++) {
        if (is_nan(key_factors[key]) || is_nan(value_factors[key])) {
            [[unroll]] for (uint h = 0u; h < 2u; h++) {
                alone[h] = alone[h] || !HIDES || sees(mine[h], int(at + key));
            }
        }
    }
}

// The score of a key for a row of the subgroup.
float plain_score(uint row, uint key) {
    uint q_at = (first + own_row + row) * push.q_stride + q_column;
    uint k_at = (key_first + key) * push.k_stride + k_column;
    float sum = 0.0;
    for (uint i = 0u; i < HEAD_DIM / 4u; i++) {
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            sum = fma(q[q_at + i][j], k[k_at + i][j], sum);
        }
    }
    return changed(sum, key, row);
}

// One row by plain sums: scores of 32 keys at once, then values in order, one pair of columns a lane.
void compute_alone(uint row) {
    uint lane = gl_SubgroupInvocationID;
    Sight sight = sight_of(own_place + int(row), int(key_count));
    float most = NONE;
    for (uint key = lane; key < key_count; key += 32u) {
        if (!HIDES || sees(sight, int(key))) {
            most = nan_max(most, plain_score(row, key));
        }
    }
    [[unroll]] for (uint reach = 1u; reach < 32u; reach *= 2u) {
        most = nan_max(most, subgroupShuffleXor(most, reach));
    }
    float sum = 0.0;
    vec2 values[2] = vec2[2](vec2(0.0), vec2(0.0));
    for (uint at = 0u; at < key_count; at += 32u) {
        uint key = at + lane;
        bool seen = key < key_count && (!HIDES || sees(sight, int(key)));
        float weight = seen ? exponential(plain_score(row, key) - most) : -1.0;
        for (uint i = 0u; i < 32u; i++) {
            float own = subgroupShuffle(weight, i);
            // Marks a hidden key.
            if (own == -1.0) {
                continue;
            }
            sum += own;
            [[unroll]] for (uint c = 0u; c < 2u; c++) {
                uint pair = min(lane + 32u * c, HEAD_DIM / 2u - 1u);
                vec4 four = v[(key_first + at + i) * push.v_stride + v_column + pair / 2u];
                values[c] = fma(vec2(own), pair % 2u == 0u ? four.xy : four.zw, values[c]);
            }
        }
    }
    [[unroll]] for (uint c = 0u; c < 2u; c++) {
        if (lane + 32u * c < HEAD_DIM / 2u) {
            uint at = (first + own_row + row) * push.y_stride + head * (HEAD_DIM / 4u);
            y[2u * at + lane + 32u * c] = sum == 0.0 ? vec2(0.0) : values[c] / sum;
        }
    }
}
