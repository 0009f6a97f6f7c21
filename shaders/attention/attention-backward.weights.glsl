// From scores to the weights of attention-backward, and to factors of its results.

// Whether a query at a position sees a key.
bool visible(int place, int key) {
    bool near = !WINDOW || uint(abs(place - key)) <= push.window;
    near = near || uint(place) < push.global_tokens || uint(key) < push.global_tokens;
    return near && (!CAUSAL || key <= place);
}

// The score of a query and a key after scaling, soft cap and bias, and the derivative of the soft cap.
float changed(float score, int distance, Meeting met, out float slant) {
    float scaled = score * push.scale;
    slant = 1.0;
    if (push.soft_cap > 0.0) {
        float t = hyperbolic_tangent(scaled / push.soft_cap);
        // 1 - t^2 cancels near 1.
        slant = (1.0 - t) * (1.0 + t);
        scaled = push.soft_cap * t;
    }
    if (push.bias_rows > 0u) {
        int reach = int(push.reach);
        uint table = (met.text * push.heads + head) % push.bias_rows * (2u * push.reach + 1u);
        scaled += bias[table + uint(clamp(distance, -reach, reach) + reach)];
    }
    return scaled;
}

// Of row ty + i and other 4 tx + j: the position of the query, the key, and whether the query sees it.
bool pair(Meeting met, uint i, uint j, uint others, uint count, bool edge, out int place, out int key) {
    uint row = first + ty + i;
    uint other = others + 4u * tx + j;
#ifdef BY_KEY
    place = place_of(other - met.q_begin, met.queries, met.keys);
    key = int(row - met.k_begin);
#else
    place = place_of(row - met.q_begin, met.queries, met.keys);
    key = int(other - met.k_begin);
#endif
    bool there = row >= met.from && row < met.to && 4u * tx + j < count;
    return there && (!edge || visible(place, key));
}

#ifdef BY_KEY
// Writes the weights of the block to the stage: p, with KEYS the gradients of the scores.
void weigh(Meeting met, uint others, uint count, bool edge, vec4 score[ROWS], vec4 slope[ROWS]) {
    float hidden = edge ? HIDDEN : 0.0;
    vec4 log_sum, d;
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        uint query = others + min(4u * tx + j, count - 1u);
        log_sum[j] = log_sum_of(query);
#ifdef KEYS
        d[j] = d_of(query);
#endif
    }
    bvec4 kept[4];
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        kept[j] = bvec4(true);
        if (DROPOUT > 0.0) {
            kept[j] = kept_from(others + 4u * tx + j, head, push.heads, int(first + ty) - int(met.k_begin));
        }
    }
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            int place, key;
            bool seen = pair(met, i, j, others, count, edge, place, key);
            float slant;
            float weight = exponential(changed(score[i][j], key - place, met, slant) - log_sum[j]);
            if (DROPOUT > 0.0) {
#ifdef KEYS
                slope[i][j] = kept[j][i] ? slope[i][j] / (1.0 - DROPOUT) : 0.0;
#else
                weight = kept[j][i] ? weight / (1.0 - DROPOUT) : 0.0;
#endif
            }
#ifdef KEYS
            weight *= (slope[i][j] - d[j]) * slant;
#endif
            score[i][j] = seen ? weight : hidden;
        }
        stage[(ty + i) * WEIGHT_STRIDE + tx] = score[i];
    }
}

// The factor of earlier results of a row.
float shrink_of(uint row) {
    return 1.0;
}

void end_rows() {
}

float factor_of(uint row) {
#ifdef KEYS
    return push.scale;
#else
    return 1.0;
#endif
}
#ifdef KEYS
STORE(dk, push.k_stride, push.k_column)
#else
STORE(dv, push.v_stride, push.v_column)
#endif
#else
shared float partial[BLOCK * QUADS];
shared float factor[BLOCK];
// Of rows ty + i: d, the largest score so far, and what this invocation has of the sum of the weights.
float d_own[ROWS], largest[ROWS], total[ROWS];

void begin_rows() {
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        d_own[i] = d_of(min(first + ty + i, last - 1u));
        largest[i] = uintBitsToFloat(0xff800000u);
        total[i] = 0.0;
    }
}

// Writes the gradients of the block's scores, times the row's sum of weights, to the stage, and the factors of earlier
// results.
void weigh(Meeting met, uint others, uint count, bool edge, vec4 score[ROWS], vec4 slope[ROWS]) {
    float hidden = edge ? HIDDEN : 0.0;
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        if (DROPOUT > 0.0) {
            slope[i] = dropped(slope[i], first + ty + i, head, push.heads, (others - met.k_begin) / 4u + tx);
        }
        float most = uintBitsToFloat(0xff800000u);
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            int place, key;
            bool seen = pair(met, i, j, others, count, edge, place, key);
            float slant;
            score[i][j] = changed(score[i][j], key - place, met, slant);
            slope[i][j] = (slope[i][j] - d_own[i]) * slant;
            if (seen) {
                most = max(most, score[i][j]);
            }
        }
        partial[(ty + i) * QUADS + tx] = most;
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        float most = largest[i];
        for (uint x = 0u; x < QUADS; x++) {
            most = max(most, partial[(ty + i) * QUADS + x]);
        }
        // Of a row without visible keys so far both are minus infinity.
        float shrink = largest[i] == most ? 1.0 : exponential(largest[i] - most);
        largest[i] = most;
        float sum = 0.0;
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            int place, key;
            bool seen = pair(met, i, j, others, count, edge, place, key);
            float weight = exponential(score[i][j] - most);
            sum += seen ? weight : 0.0;
            score[i][j] = seen ? weight * slope[i][j] : hidden;
        }
        total[i] = fma(total[i], shrink, sum);
        stage[(ty + i) * WEIGHT_STRIDE + tx] = score[i];
        if (tx == 0u) {
            factor[ty + i] = shrink;
        }
    }
}

float shrink_of(uint row) {
    return factor[row];
}

// Adds the sums of the weights, and writes their logarithms.
void end_rows() {
    barrier();
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        partial[(ty + i) * QUADS + tx] = total[i];
    }
    barrier();
    if (tx == 0u) {
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            float sum = 0.0;
            for (uint x = 0u; x < QUADS; x++) {
                sum += partial[(ty + i) * QUADS + x];
            }
            // The weights of a query without keys have a sum of zero; nothing reads its logarithm.
            factor[ty + i] = sum == 0.0 ? 0.0 : push.scale / sum;
            uint row = first + ty + i;
            if (row < last) {
                uint at = row * query_fields() + PLACES + push.heads + head;
                query_rows[at] = floatBitsToUint(largest[i] + logarithm(sum));
            }
        }
    }
    barrier();
}

float factor_of(uint row) {
    return factor[row];
}
STORE(dq, push.q_stride, push.q_column)
#endif
