// The push block of the kernels of attention-backward, what they read of the rows of queries, and the head that a workgroup is
// at.

layout(push_constant) uniform Push {
    uint heads;
    // Query heads per key-value head.
    uint group;
    // In elements.
    uint q_stride;
    uint q_column;
    uint k_stride;
    uint k_column;
    uint v_stride;
    uint v_column;
    float scale;
#ifdef MASKS_AND_BIASES
    // 0 for none, as of a window.
    float soft_cap;
    uint causal;
    uint window;
    uint global_tokens;
    uint align_end;
    // As in attention-push.glsl.
    uint reach;
    // 0 where there are no biases.
    uint bias_rows;
    // Whether the result has columns of no head.
    uint others;
#endif
} push;

// Words per row of query_rows.
uint query_fields() {
    return PLACES + 2u * push.heads;
}

#define PLACE_OF(NAME, ROWS, FIELDS)                                                                                   \
    Place NAME(uint row) {                                                                                             \
        uint at = row * FIELDS;                                                                                        \
        return Place(ROWS[at], ROWS[at + 1u], ROWS[at + 2u], ROWS[at + 3u], ROWS[at + 4u], ROWS[at + 5u]);             \
    }

// Of the head that the workgroup is at: its number, and its first columns.
uint head, q_column, k_column, v_column;

void set_head(uint number) {
    head = number;
    q_column = push.q_column + number * HEAD_DIM;
    k_column = push.k_column + number / push.group * HEAD_DIM;
    v_column = push.v_column + number / push.group * HEAD_DIM;
}

// d of a query, and the logarithm of the sum of its weights, with matrix cores to base 2.
float d_of(uint query) {
    return uintBitsToFloat(query_rows[query * query_fields() + PLACES + head]);
}

float log_sum_of(uint query) {
    return uintBitsToFloat(query_rows[query * query_fields() + PLACES + push.heads + head]);
}
