// Rows of any width in global memory: they start at multiples of a unit, elements that are read or written at once. In 16 bits it has 8, 4,
// 2 or 1 elements, in float32 4 or 1. After stored.glsl.
#if STORED == FLOAT32
// Declares NAME at binding INDEX, with ACCESS readonly or writeonly, in units of each size.
#define UNITS(INDEX, ACCESS, NAME)                                                                                     \
    layout(std430, binding = INDEX) ACCESS buffer NAME##_fours { vec4 NAME##_4[]; };                                   \
    layout(std430, binding = INDEX) ACCESS buffer NAME##_ones { float NAME[]; };

// Declares `vec4 quad_of_NAME(at, first)`: unit `at` from place `first` of four numbers, of which the others are 0.
#define QUADS_OF(NAME, UNIT)                                                                                           \
    vec4 quad_of_##NAME(uint at, uint first) {                                                                         \
        if (UNIT == 4u) {                                                                                              \
            return wide(NAME##_4[at]);                                                                                 \
        }                                                                                                              \
        return wide(mix(vec4(0.0), vec4(NAME[at]), equal(uvec4(0u, 1u, 2u, 3u), uvec4(first))));                       \
    }

// Declares `vec4 four_of_NAME(at, place, end)`: four numbers from unit `at` on, the first at `place` of its row; those at `end` and
// past it are 0, unless ALL are there. Loads are unconditional, at a valid index.
#define FOURS_OF(NAME, UNIT, ALL)                                                                                      \
    vec4 four_of_##NAME(uint at, uint place, uint end) {                                                               \
        if (UNIT == 4u) {                                                                                              \
            vec4 four = NAME##_4[ALL || place < end ? at : 0u];                                                        \
            return ALL || place < end ? four : vec4(0.0);                                                              \
        }                                                                                                              \
        vec4 four = vec4(0.0);                                                                                         \
        [[unroll]] for (uint i = 0u; i < 4u; i++) {                                                                    \
            float number = NAME[ALL || place + i < end ? at + i : 0u];                                                 \
            four[i] = ALL || place + i < end ? number : 0.0;                                                           \
        }                                                                                                              \
        return four;                                                                                                   \
    }

// Declares `put_quad(at, quad, first)`: writes the numbers from place `first` on as unit `at` of NAME.
#define PUTS(NAME, UNIT)                                                                                               \
    void put_quad(uint at, vec4 quad, uint first) {                                                                    \
        if (UNIT == 4u) {                                                                                              \
            NAME##_4[at] = narrow(quad);                                                                               \
        } else {                                                                                                       \
            NAME[at] = narrow(quad)[first];                                                                            \
        }                                                                                                              \
    }
#else
#extension GL_EXT_shader_16bit_storage : require
#define UNITS(INDEX, ACCESS, NAME)                                                                                     \
    layout(std430, binding = INDEX) ACCESS buffer NAME##_eights { uvec4 NAME[]; };                                     \
    layout(std430, binding = INDEX) ACCESS buffer NAME##_fours { uvec2 NAME##_4[]; };                                  \
    layout(std430, binding = INDEX) ACCESS buffer NAME##_pairs { uint NAME##_2[]; };                                   \
    layout(std430, binding = INDEX) ACCESS buffer NAME##_ones { uint16_t NAME##_1[]; };

// Declares `uvec4 unit_of_NAME(at, first)`: unit `at` from place `first` of eight elements, of which the others are 0.
#define UNIT_OF(NAME, UNIT)                                                                                            \
    uvec4 unit_of_##NAME(uint at, uint first) {                                                                        \
        if (UNIT == 8u) {                                                                                              \
            return NAME[at];                                                                                           \
        }                                                                                                              \
        if (UNIT == 4u) {                                                                                              \
            uvec2 four = NAME##_4[at];                                                                                 \
            return first == 0u ? uvec4(four, 0u, 0u) : uvec4(0u, 0u, four);                                            \
        }                                                                                                              \
        uint word = UNIT == 2u ? NAME##_2[at] : uint(NAME##_1[at]) << (first % 2u * 16u);                              \
        return mix(uvec4(0u), uvec4(word), equal(uvec4(0u, 1u, 2u, 3u), uvec4(first / 2u)));                           \
    }
#define QUADS_OF(NAME, UNIT)                                                                                           \
    UNIT_OF(NAME, UNIT)                                                                                                \
    vec4 quad_of_##NAME(uint at, uint first) {                                                                         \
        return wide(unit_of_##NAME(at, first).xy);                                                                     \
    }

// Declares `uvec4 eight_of_NAME(at, place, end)`, after UNIT_OF: eight elements from unit `at` on, the first at `place` of its row;
// those at `end` and past it are 0, unless ALL are there. Loads are unconditional, at a valid index.
#define EIGHTS_OF(NAME, UNIT, ALL)                                                                                     \
    uvec4 eight_of_##NAME(uint at, uint place, uint end) {                                                             \
        uvec4 eight = uvec4(0u);                                                                                       \
        [[unroll]] for (uint i = 0u; i < 8u / UNIT; i++) {                                                             \
            bool there = ALL || place + i * UNIT < end;                                                                \
            eight |= mix(uvec4(0u), unit_of_##NAME(there ? at + i : 0u, i * UNIT), bvec4(there));                      \
        }                                                                                                              \
        return eight;                                                                                                  \
    }

// Declares `put_unit(at, eight, first)`, which writes the elements from place `first` on as unit `at` of NAME, and `put_quad`.
#define PUTS(NAME, UNIT)                                                                                               \
    void put_unit(uint at, uvec4 eight, uint first) {                                                                  \
        if (UNIT == 8u) {                                                                                              \
            NAME[at] = eight;                                                                                          \
        } else if (UNIT == 4u) {                                                                                       \
            NAME##_4[at] = first == 0u ? eight.xy : eight.zw;                                                          \
        } else if (UNIT == 2u) {                                                                                       \
            NAME##_2[at] = eight[first / 2u];                                                                          \
        } else {                                                                                                       \
            NAME##_1[at] = uint16_t(eight[first / 2u] >> (first % 2u * 16u));                                          \
        }                                                                                                              \
    }                                                                                                                  \
    void put_quad(uint at, vec4 quad, uint first) {                                                                    \
        put_unit(at, uvec4(narrow(quad), 0u, 0u), first);                                                              \
    }
#endif
