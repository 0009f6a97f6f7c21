// The interface of attention, and its loads. HEAD_DIM and VECTOR are constants of the shader.
#include "attention/attention-heads.glsl"
#include "counts.glsl"

INPUT_HEADS(1, q)
INPUT_HEADS(2, k)
INPUT_HEADS(3, v)
OUTPUT(7, y, QUAD)

#include "attention/attention-push.glsl"

// The text of a token: the last nonempty one that starts at or before it.
uint text_of(uint token) {
    LAST_TEXT(low, counts.texts, q_offsets[middle] <= token)
    return low;
}
