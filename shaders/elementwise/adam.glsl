#version 460
// Computes: d = g + coupled parameter; m = beta1 m + (1 - beta1) d; v = beta2 v + (1 - beta2) d^2; parameter = parameter
//           - rate ((m / c1) / (sqrt(v / c2) + eps) + decay parameter); all in place, with SCALED of factor g. Where that
//           leaves float32, in the order of torch's operations, which may stay finite.
// Grid: x = ceil(rows / push.rows_per_group); 256 invocations loop over the elements of those rows.
// Reduction order: none.
// Assumes: elements < 2^32; rows_per_group * columns is a multiple of 4; rates = [rate, c1, c2]; a factor of NaN is to
//          change nothing.
#include "elements.glsl"
#include "numbers.glsl"

layout(std430, binding = 1) buffer Parameter { float parameter[]; };
layout(std430, binding = 2) buffer M { float m[]; };
layout(std430, binding = 3) buffer V { float v[]; };
layout(std430, binding = 4) readonly buffer G { float g[]; };
layout(std430, binding = 5) readonly buffer Rates { float rates[]; };
layout(std430, binding = 6) readonly buffer Factor { float factor[]; };
layout(constant_id = 0) const bool SCALED = false;

layout(push_constant) uniform Push {
    ELEMENT_MEMBERS
    float beta1;
    float beta2;
    float eps;
    float decay;
    float coupled;
} push;

void one(uint place) {
    float scale = factor[0];
    if (SCALED && is_nan(scale)) {
        return;
    }
    precise float old = parameter[place];
    precise float own = SCALED ? scale * g[place] : g[place];
    precise float decayed = own + push.coupled * old;
    float by = push.coupled == 0.0 ? own : decayed;
    precise float before = m[place];
    precise float mean = push.beta1 * before + (1.0 - push.beta1) * by;
    precise float gap = by - before;
    if (!is_finite(gap)) {
        mean = 1.0 - push.beta1 < 0.5 ? before + (1.0 - push.beta1) * gap : by - gap * push.beta1;
    }
    precise float term = by * by;
    term = is_finite(term) ? (1.0 - push.beta2) * term : (1.0 - push.beta2) * by * by;
    precise float square = push.beta2 * v[place] + term;
    precise float corrected = square / rates[2];
    precise float divisor = sqrt(corrected) + push.eps;
    precise float change = rates[0] * (mean / rates[1] / divisor + push.decay * old);
    precise float after = old - change;
    precise float moved = rates[0] / rates[1] * mean;
    if (!(is_finite(corrected) && is_finite(after) && is_finite(moved))) {
        precise float kept = push.decay == 0.0 ? old : old * (1.0 - rates[0] * push.decay);
        precise float apart = sqrt(square) / sqrt(rates[2]) + push.eps;
        after = kept - moved / apart;
    }
    m[place] = mean;
    v[place] = square;
    parameter[place] = after;
}

#define SINGLY
#include "elements-main.glsl"
