// The interface of attention, and its loads. HEAD_DIM and VECTOR are constants of the shader.
#include "attention/attention-heads.glsl"
#include "counts.glsl"

INPUT_HEADS(1, q)
INPUT_HEADS(2, k)
INPUT_HEADS(3, v)
OUTPUT(7, y, QUAD)

#include "attention/attention-push.glsl"
