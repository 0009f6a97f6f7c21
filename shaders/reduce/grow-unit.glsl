#version 460
// Computes: if left > threshold * total and 0 <= units < capacity, the row of residual [rows, columns] of largest energy, divided
//           by its norm, as row `units` of weight, and units + 1; in place. share = left / total, 0 if total is not above 0.
// Grid: one workgroup; 256 invocations loop over the rows, then over the columns.
// Reduction order: none; of equal energies the first row's counts.
// Assumes: units is a whole number; rows * columns and capacity * columns < 2^32.
layout(local_size_x = 256) in;

layout(std430, binding = 0) buffer Weight { float weight[]; };
layout(std430, binding = 1) buffer Units { float units[]; };
layout(std430, binding = 2) readonly buffer Residual { float residual[]; };
layout(std430, binding = 3) readonly buffer Energy { float energy[]; };
layout(std430, binding = 4) readonly buffer Left { float left[]; };
layout(std430, binding = 5) readonly buffer Total { float total[]; };
layout(std430, binding = 6) writeonly buffer Share { float share[]; };

layout(push_constant) uniform Push {
    uint rows;
    uint columns;
    uint capacity;
    float threshold;
} push;

shared float most[256];
shared uint places[256];
shared float units_before;

void main() {
    uint own = gl_LocalInvocationIndex;
    // Read by one invocation, before any can write it.
    if (own == 0u) {
        units_before = units[0];
    }
    float best = 0.0;
    uint place = 0u;
    for (uint row = own; row < push.rows; row += 256u) {
        float next = energy[row];
        place = next > best ? row : place;
        best = next > best ? next : best;
    }
    most[own] = best;
    places[own] = place;
    barrier();
    for (uint reach = 128u; reach > 0u; reach /= 2u) {
        if (own < reach) {
            float other = most[own + reach];
            uint there = places[own + reach];
            if (other > most[own] || (other == most[own] && there < places[own])) {
                most[own] = other;
                places[own] = there;
            }
        }
        barrier();
    }
    best = most[0];
    place = places[0];
    float before = units_before;
    bool fits = before >= 0.0 && before < float(push.capacity);
    bool grows = left[0] > push.threshold * total[0] && fits && best > 0.0;
    if (grows) {
        float norm = sqrt(best);
        uint unit = uint(before);
        for (uint column = own; column < push.columns; column += 256u) {
            weight[unit * push.columns + column] = residual[place * push.columns + column] / norm;
        }
    }
    if (own == 0u) {
        units[0] = grows ? before + 1.0 : before;
        share[0] = total[0] > 0.0 ? left[0] / total[0] : 0.0;
    }
}
