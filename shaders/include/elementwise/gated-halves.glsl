// Shared by gated and its gradient: rows of 2 width elements, whose first half is multiplied by the second's activation.
#include "stored.glsl"
#include "elements.glsl"
#include "elementwise/functions.glsl"

layout(constant_id = 0) const uint ACTIVATION = 0;
// Whether width is a multiple of four.
ALIGNED_ROWS(VECTOR, 1);

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
    uint width;
    float a;
    float b;
} push;

// The index in such rows that corresponds to an element of rows of width elements.
uint first_half(uint place) {
    return place + place / push.width * push.width;
}
