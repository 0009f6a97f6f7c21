// Matrices of signed digits, of 8 bits, and their sums, of 32. A piece is what a row of an operand's matrix has at least: 8 or 16 of
// its bytes. Rows of 16 bytes and more are a piece apart, so that they start at different banks. The compiler of the software device
// that has matrices of 8 x 8 takes minutes for what is unrolled.
#define ELEMENT int8_t
#define SUM_ELEMENT int
#ifdef EIGHTS
#define SIDE 8
#define TERMS 8
#define PIECE uvec2
const uint LANES_OF_MATRIX = 8u;
#define UNROLLED
const uint PIECE_BYTES = 8u;
const uint APART = 0u;
#else
#define SIDE 16
#define TERMS 32
#define PIECE uvec4
const uint LANES_OF_MATRIX = 32u;
#define UNROLLED [[unroll]]
const uint PIECE_BYTES = 16u;
const uint APART = 1u;
#endif
#define ELEMENT_BYTES 1
#define MATRIX_M SIDE
#define MATRIX_N SIDE
#define MATRIX_K TERMS
#include "matrix/cooperative-matrix.glsl"
