// Softmax of attention-matrix where the distribution of matrix elements over lanes is unknown: scores pass through
// shared memory, where SHARERS lanes share a row. All rows see all keys.

const uint SHARERS = LANES / MATRIX_M;
// Keys of a block per sharing lane.
const uint OWN = KEYS / SHARERS;
const uint WORK_STRIDE = KEYS / 4u + 1u;
// A subgroup's rows of scores, later overwritten by weights.
shared uvec4 work[TILE * WORK_STRIDE];
shared float factor[TILE];
float largest;
float total;

void begin(uint key_count) {
    largest = uintBitsToFloat(0xff800000u);
    total = 0.0;
}

// Multiplies the results by their rows' factors.
void multiply() {
    SUM each;
    coopMatLoad(each, factor, own_row, 0u, gl_CooperativeMatrixLayoutColumnMajor);
    [[unroll]] for (uint i = 0u; i < SLICES; i++) {
        [[unroll]] for (uint e = 0u; e < result[i].length(); e++) {
            result[i][e] *= each[e];
        }
    }
}

// Turns scores into weights and rescales earlier results to the new maximum.
void soften(uint at, uint key_count, bool edge) {
    uint own_work = own_row * WORK_STRIDE;
    [[unroll]] for (uint n = 0u; n < WIDE; n++) {
        coopMatStore(score[n], work, own_work + MATRIX_N / 4u * n, WORK_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    }
    subgroupBarrier();
    uint row = gl_SubgroupInvocationID / SHARERS;
    uint part = gl_SubgroupInvocationID % SHARERS;
    uint slot = own_work + row * WORK_STRIDE;
    uint seen = min(key_count - at, KEYS);
    seen = seen - min(seen, part * OWN);
    float power[OWN];
    float most = largest;
    [[unroll]] for (uint i = 0u; i < OWN / 4u; i++) {
        vec4 quad = uintBitsToFloat(work[slot + part * OWN / 4u + i]);
        [[unroll]] for (uint e = 0u; e < 4u; e++) {
            if (CHANGES) {
                quad[e] = changed(quad[e], at + part * OWN + 4u * i + e, row);
            }
            power[4u * i + e] = quad[e] * scale;
            most = 4u * i + e < seen ? max(most, power[4u * i + e]) : most;
        }
    }
    [[unroll]] for (uint reach = 1u; reach < SHARERS; reach *= 2u) {
        most = max(most, subgroupShuffleXor(most, reach));
    }
    // A row without visible keys so far: its weights are still powers of minus infinity.
    float shift = most == uintBitsToFloat(0xff800000u) ? 0.0 : most;
    float shrink = exp2(largest - shift);
    largest = most;
    float sum = 0.0;
    // All lanes have read their scores before weights overwrite them.
    subgroupBarrier();
    [[unroll]] for (uint i = 0u; i < OWN; i += 8u) {
        [[unroll]] for (uint e = 0u; e < 8u; e++) {
            power[i + e] = i + e < seen ? exp2(power[i + e] - shift) : 0.0;
            sum += power[i + e];
        }
        work[slot + (part * OWN + i) / 8u] = uvec4(
            packHalf2x16(vec2(power[i], power[i + 1u])), packHalf2x16(vec2(power[i + 2u], power[i + 3u])),
            packHalf2x16(vec2(power[i + 4u], power[i + 5u])), packHalf2x16(vec2(power[i + 6u], power[i + 7u])));
    }
    [[unroll]] for (uint reach = 1u; reach < SHARERS; reach *= 2u) {
        sum += subgroupShuffleXor(sum, reach);
    }
    total = fma(total, shrink, sum);
    bool shrinks = subgroupMin(shrink) != 1.0;
    if (shrinks && part == 0u) {
        factor[own_row + row] = shrink;
    }
    subgroupBarrier();
    if (shrinks) {
        multiply();
    }
    [[unroll]] for (uint n = 0u; n < WIDE; n++) {
        coopMatLoad(weight[n], work, own_work + TERM_QUADS * n, WORK_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    }
    subgroupBarrier();
}

void add_others(uint at, uint key_count, uint key_first, uint v_column) {
}

void divide() {
    if (gl_SubgroupInvocationID % SHARERS == 0u) {
        // The weights of a text without keys have a sum of zero.
        factor[own_row + gl_SubgroupInvocationID / SHARERS] = total == 0.0 ? 0.0 : 1.0 / total;
    }
    subgroupBarrier();
    multiply();
}
