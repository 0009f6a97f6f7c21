// The tile and the loop of attention-output. A build defines before it which weights its pattern leaves at zero:
//   PATTERN        if it has one, and then
//   bool wanted(uint first, uint last, uint key, uint count)   whether rows first .. last may need `count` keys from key
//   bool allowed(uint slot, uint row, uint key)   whether a weight may differ from zero; the others count as zero.
//                                      An invocation queries one row per slot, ROWS_LOADED slots, for the whole tile
//   PREPARED       if it needs void prepare(uint first, uint last) and void prepare_row(uint slot, uint row) before
//   GROUPED        the rows of all heads that share values are stacked, 128 at once instead of 64
//   FEW_ROWS       in a partial tile, absent rows are not computed
#extension GL_EXT_control_flow_attributes : require
#include "stored.glsl"

layout(local_size_x = 256) in;

#ifdef GROUPED
const uint TILE_ROWS = 128;
const uint COLUMNS = TILE_COLUMNS > 64u ? TILE_COLUMNS : 64u;
const uint TILE_KEYS = 16;
#else
const uint TILE_ROWS = 64;
#define COLUMNS TILE_COLUMNS
const uint TILE_KEYS = 32;
#endif
const uint KEY_QUADS = TILE_KEYS / 4;
const uint COLUMN_QUADS = COLUMNS / 4;
// An invocation computes the rows ty + ROW_STEP i and one quad of columns.
const uint ROW_STEP = 256 / COLUMN_QUADS;
const uint ROWS = TILE_ROWS / ROW_STEP;
const uint WEIGHT_LOADS = TILE_ROWS * KEY_QUADS / 256;
const uint VALUE_LOADS = TILE_KEYS * COLUMN_QUADS / 256;
// Four keys of a row are adjacent; one quad of padding keeps neighbouring rows in different banks.
const uint STRIDE = KEY_QUADS + 1;
shared vec4 weight_tile[TILE_ROWS * STRIDE];
shared vec4 value_tile[TILE_KEYS * COLUMN_QUADS];

// weights[row, key .. key + 3] of the matrix whose first row is `base`; zeros outside it.
vec4 load_weights(uint slot, uint base, uint row, uint rows, uint key) {
    bool there = row < rows && key < push.kv_len;
    uint at = there ? (base + row) * push.kv_len + key : 0u;
    PADDED_QUAD(weights, VECTOR, 1u, push.kv_len - 1u - key)
#ifdef PATTERN
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        quad[j] = allowed(slot, row, key + j) ? quad[j] : 0.0;
    }
#endif
    return mix(quad, vec4(0.0), bvec4(!there));
}

// values[key, column .. column + 3] of one head; zeros outside it.
vec4 load_values(uint text, uint kv_head, uint key, uint column) {
    bool there = key < push.kv_len && column < push.head_dim;
    uint at = there ? ((text * push.kv_len + key) * push.kv_heads + kv_head) * push.head_dim + column : 0u;
    PADDED_QUAD(values, VECTOR, 1u, push.head_dim - 1u - column)
    return mix(quad, vec4(0.0), bvec4(!there));
}

// The first key at or after `key`, in steps of TILE_KEYS, that a row of the tile may need; kv_len or more if none.
uint next_keys(uint first, uint last, uint key) {
#ifdef PATTERN
    while (key < push.kv_len && !wanted(first, last, key, TILE_KEYS)) {
        key += TILE_KEYS;
    }
#endif
    return key;
}

// Adds the products of the tiles to an invocation's first `rows` rows.
void multiply(inout vec4 result[ROWS], uint tx, uint ty, uint rows) {
    [[unroll]] for (uint c = 0u; c < KEY_QUADS; c++) {
        vec4 v[4];
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            v[j] = value_tile[(4u * c + j) * COLUMN_QUADS + tx];
        }
        [[unroll]] for (uint i = 0u; i < rows; i++) {
            vec4 w = weight_tile[(ty + ROW_STEP * i) * STRIDE + c];
            [[unroll]] for (uint j = 0u; j < 4u; j++) {
                result[i] = fma(vec4(w[j]), v[j], result[i]);
            }
        }
    }
}

void main() {
    uint invocation = gl_LocalInvocationIndex;
    uint tx = invocation % COLUMN_QUADS;
    uint ty = invocation / COLUMN_QUADS;
    uint text = gl_WorkGroupID.z;
    uint group = push.heads / push.kv_heads;
    uint kv_head = gl_WorkGroupID.y / group;
#ifdef GROUPED
    uint head = kv_head * group;
    uint rows = group * push.q_len;
    uint first = (gl_WorkGroupID.y % group * gl_NumWorkGroups.x + gl_WorkGroupID.x) * TILE_ROWS;
#else
    uint head = gl_WorkGroupID.y;
    uint rows = push.q_len;
    uint first = gl_WorkGroupID.x * TILE_ROWS;
#endif
    if (first >= rows) {
        return;
    }
    uint last = min(first + TILE_ROWS, rows) - 1u;
    uint base = (text * push.heads + head) * push.q_len;

    uint weight_row = invocation / KEY_QUADS;
    uint weight_quad = invocation % KEY_QUADS;
#ifdef PREPARED
    prepare(first, last);
    [[unroll]] for (uint i = 0u; i < WEIGHT_LOADS; i++) {
        prepare_row(i, first + weight_row + i * (256u / KEY_QUADS));
    }
#endif
    for (uint column = 0u; column < push.head_dim; column += COLUMNS) {
        vec4 result[ROWS];
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            result[i] = vec4(0.0);
        }
        // The next tiles, being loaded while the present ones are multiplied.
        vec4 next_weights[WEIGHT_LOADS];
        vec4 next_values[VALUE_LOADS];
        uint key = next_keys(first, last, 0u);
        bool loaded = false;
        while (loaded || key < push.kv_len) {
            if (loaded) {
                barrier();
                [[unroll]] for (uint i = 0u; i < WEIGHT_LOADS; i++) {
                    weight_tile[(weight_row + i * (256u / KEY_QUADS)) * STRIDE + weight_quad] = next_weights[i];
                }
                [[unroll]] for (uint i = 0u; i < VALUE_LOADS; i++) {
                    value_tile[invocation + 256u * i] = next_values[i];
                }
                barrier();
            }
            bool more = key < push.kv_len;
            if (more) {
                [[unroll]] for (uint i = 0u; i < WEIGHT_LOADS; i++) {
                    uint row = first + weight_row + i * (256u / KEY_QUADS);
                    next_weights[i] = load_weights(i, base, row, rows, key + 4u * weight_quad);
                }
                [[unroll]] for (uint i = 0u; i < VALUE_LOADS; i++) {
                    uint at = invocation + 256u * i;
                    uint at_column = column + 4u * (at % COLUMN_QUADS);
                    next_values[i] = load_values(text, kv_head, key + at / COLUMN_QUADS, at_column);
                }
                key = next_keys(first, last, key + TILE_KEYS);
            }
            if (loaded) {
#ifdef FEW_ROWS
                if (first + ROW_STEP * (ROWS / 2u) > last) {
                    multiply(result, tx, ty, ROWS / 2u);
                } else
#endif
                multiply(result, tx, ty, ROWS);
            }
            loaded = more;
        }

        uint at_column = column + 4u * tx;
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            uint row = first + ty + ROW_STEP * i;
            if (row <= last && at_column < push.head_dim) {
#ifdef GROUPED
                uint place = (text * push.q_len + row % push.q_len) * push.heads + head + row / push.q_len;
#else
                uint place = (text * push.q_len + row) * push.heads + head;
#endif
                uint at = place * push.head_dim + at_column;
                vec4 quad = result[i];
                STORE_QUAD(y, VECTOR, at_column, push.head_dim)
            }
        }
        // All reads of the tiles finish before the next columns' tiles are written.
        barrier();
    }
}
