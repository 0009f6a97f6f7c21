// Queries, keys and values of attention-split that split-heads has split. After attention-split.blocks.glsl.
layout(std430, binding = 8) readonly buffer Queries { uvec4 queries[]; };
layout(std430, binding = 9) readonly buffer Keys { uvec4 keys[]; };
layout(std430, binding = 10) readonly buffer Values { uvec4 values[]; };

// Groups of eight of a head in memory, and its quads there; those of a row in matrices, of a block, and those that an invocation loads.
const uint OWN = (HEAD_DIM + 7u) / 8u;
const uint HEAD_QUADS = 1u + 2u * OWN;
const uint ROW = 2u * EIGHTS;
const uint BLOCK = KEYS * ROW;
const uint LOADS = (BLOCK + INVOCATIONS - 1u) / INVOCATIONS;

// Whether a block is loaded while the one before is multiplied: it takes registers, which a subgroup with a whole head needs itself.
const bool AHEAD = PARTS > 1u;
// The invocation's quads of the block, and the inverse of the factor of a key, or of a value.
uvec4 next_keys[LOADS];
uvec4 next_values[LOADS];
float next_factor;

// The place in a head of a quad of a row in matrices, high parts before low ones; 0 for those past its columns.
uint place_in_head(uint quad) {
    uint eighth = quad % EIGHTS;
    return eighth < OWN ? 1u + quad / EIGHTS * OWN + eighth : 0u;
}

void load_queries() {
    for (uint i = gl_LocalInvocationIndex; i < TILE * ROW; i += INVOCATIONS) {
        uint row = i / ROW, quad = i % ROW, place = place_in_head(quad);
        uint at = (min(first + row, last - 1u) * gl_NumWorkGroups.y + head) * HEAD_QUADS;
        uvec4 found = queries[at + place];
        tile[quad / EIGHTS * LOW_QUERIES + row * STRIDE + quad % EIGHTS] = mix(uvec4(0u), found, bvec4(place > 0u));
        if (quad == 0u) {
            query_factors[row] = uintBitsToFloat(queries[at].x);
        }
    }
}

// The first quad of a key's head, of keys as of values; of a key past the text's last that of the last.
uint head_at(uint key) {
    uint heads = gl_NumWorkGroups.y / push.group;
    return ((key_first + min(key, key_count - 1u)) * heads + head / push.group) * HEAD_QUADS;
}

// Loads the invocation's quads of keys at .. at + KEYS - 1 of the text; zeros past its last key, so that whatever is stored
// there has no effect.
void fetch(uint at) {
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint quad = gl_LocalInvocationIndex + INVOCATIONS * i;
        uint row = quad / ROW, place = place_in_head(quad % ROW);
        bool inside = at + row < key_count && row < KEYS && place > 0u;
        uint from = head_at(at + row) + place;
        next_keys[i] = mix(uvec4(0u), keys[from], bvec4(inside));
        next_values[i] = mix(uvec4(0u), values[from], bvec4(inside));
    }
    uint row = gl_LocalInvocationIndex % KEYS;
    uint from = head_at(at + row);
    uint found = gl_LocalInvocationIndex < KEYS ? keys[from].x : values[from].x;
    next_factor = at + row < key_count ? uintBitsToFloat(found) : 0.0;
}

// Writes them to shared memory.
void store(uint at) {
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint quad = gl_LocalInvocationIndex + INVOCATIONS * i;
        if (quad < BLOCK) {
            uint slot = quad / ROW * STRIDE + quad % ROW / EIGHTS * LOW + quad % EIGHTS;
            tile[slot] = next_keys[i];
            tile[VALUES + slot] = next_values[i];
        }
    }
    if (gl_LocalInvocationIndex < 2u * KEYS) {
        if (gl_LocalInvocationIndex < KEYS) {
            key_factors[gl_LocalInvocationIndex] = next_factor;
        } else {
            value_factors[gl_LocalInvocationIndex - KEYS] = next_factor;
        }
        if (is_nan(next_factor)) {
            tainted = at + 1u;
        }
    }
}
