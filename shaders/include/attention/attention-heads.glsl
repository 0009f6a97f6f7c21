// Operands whose columns are heads. HEAD_DIM and VECTOR are constants of the shader.

// Declares an operand as INPUT does, and `vec4 load_NAME(there, at, column)`: four columns of a head from `column`, at
// element `at`; zeros past the head's end and where `there` is false.
#define INPUT_HEADS(INDEX, NAME)                                                                                       \
    INPUT(INDEX, NAME, QUAD)                                                                                           \
    vec4 load_##NAME(bool there, uint at, uint column) {                                                               \
        there = there && column < HEAD_DIM;                                                                            \
        at = there ? at : 0u;                                                                                          \
        PADDED_QUAD(NAME, VECTOR, 1u, HEAD_DIM - 1u - column)                                                          \
        return mix(quad, vec4(0.0), bvec4(!there));                                                                    \
    }
