// Shared by cross-entropy and its gradient: constants, push block, and a row's values, if HELD. The bindings differ.
#include "counts.glsl"
#include "numbers.glsl"
#include "held-rows.glsl"

layout(constant_id = 4) const bool WEIGHTED = false;
layout(constant_id = 5) const bool SMOOTHED = false;

layout(push_constant) uniform Push {
    ROW_MEMBERS
    float label_smoothing;
} push;

vec4 held[QUADS];
