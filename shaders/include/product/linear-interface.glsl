// Shared by the builds of `linear`: their interface without constants, loads and epilogue. With GATED two weights
// replace the one, gate and up, with 64 rows each per tile of 128 columns, and y = act(x gate^T) (x up^T). With NORMED
// or FOLDED x is normalised by its rows' moments, m = mean and r = 1 / sqrt(var + eps): with NORMED as it is loaded,
// with FOLDED in the result, y = act(r (x (g w)^T - m s) + c), where s and c are column sums (layer-norm-columns.glsl).
// With EXPERTS the weight has several matrices (expert-rows.glsl).
#extension GL_EXT_control_flow_attributes : require
#include "counts.glsl"
#include "elementwise/activate.glsl"
#include "numbers/terms.glsl"
#include "stored.glsl"
#if !defined(GATED) && !defined(FOLDED)
#define BIASED
#endif
#if defined(BIASED) && !defined(NORMED) && !defined(EXPERTS)
#define ADDS
#endif

// Whether rows of x and the weight start at multiples of four elements.
ALIGNED_ROWS(VECTOR, 0);
layout(constant_id = 2) const uint ACTIVATION = 0;
// Whether rows of the result do.
ALIGNED_ROWS(VECTOR_Y, 7);

INPUT(1, x, QUAD)
#if defined(NORMED) || defined(FOLDED)
layout(std430, binding = 2) readonly buffer Moments { vec2 moments[]; };
INPUT(3, norm_weight, vec4)
#define WEIGHT 5
#else
#define WEIGHT 2
#endif
#ifdef NORMED
INPUT(4, norm_bias, vec4)
#define RESULT 7
#endif
#ifdef FOLDED
layout(std430, binding = 4) readonly buffer Columns { vec2 columns[]; };
#define RESULT 6
#endif
INPUT(WEIGHT, weight, QUAD)
#ifdef GATED
INPUT(3, up, QUAD)
#define RESULT 4
#endif
#ifdef BIASED
layout(constant_id = 1) const bool BIAS = false;
INPUT(WEIGHT + 1, bias, vec4)
#endif
#ifdef ADDS
layout(constant_id = 3) const bool RESIDUAL = false;
INPUT(4, residual, QUAD)
#define RESULT 5
#endif
#ifdef EXPERTS
#define ORDER 4
#define RESULT 6
#endif
#include "product/expert-rows.glsl"
OUTPUT(RESULT, y, QUAD)
#if defined(ADDS) && STORED != FLOAT32
// Whether the result is float32.
layout(constant_id = 9) const bool WIDE = false;
layout(std430, binding = RESULT) writeonly buffer YWide { vec4 y_wide[]; };
#define STORE_RESULT(AT, FOUR)                                                                                         \
    if (WIDE) {                                                                                                        \
        y_wide[AT] = FOUR;                                                                                             \
    } else {                                                                                                           \
        y_4[AT] = narrow(FOUR);                                                                                        \
    }
#else
#define STORE_RESULT(AT, FOUR) y_4[AT] = narrow(FOUR);
#endif

layout(push_constant) uniform Push {
    uint rows_of;
    uint rows;
    // Bound rows of the weight, which produce columns column .. column + n of the result.
    uint n;
    uint k;
    uint column;
    uint y_columns;
#ifdef GATED
    // Bound rows of gate and up; n counts both, including the padding of the last tile.
    uint width;
#endif
#ifdef EXPERTS
    EXPERT_MEMBERS
#endif
} push;

// Declares `vec4 LOADS(row, k, rows)`: elements [row, k .. k + 3], zeros past the end of the row and past the last of `rows`.
#define LOAD(LOADS, NAME)                                                                                              \
    vec4 LOADS(uint row, uint k, uint rows) {                                                                          \
        bool there = row < rows && k < push.k;                                                                         \
        uint at = there ? row * push.k + k : 0u;                                                                       \
        PADDED_QUAD(NAME, VECTOR, 1u, push.k - 1u - k)                                                                 \
        return mix(quad, vec4(0.0), bvec4(!there));                                                                    \
    }

LOAD(load_x, x)
LOAD(load_first, weight)

#ifdef GATED
LOAD(load_up, up)
#define WEIGHT_ROWS push.width

// Whether row n of both weights' tiles is a row of up, and its index.
bool is_up(uint n) {
    return n % 128u >= 64u;
}

uint weight_row(uint n) {
    return n / 128u * 64u + n % 64u;
}

// Four adjacent elements of a weight, from a valid index.
vec4 weight_quad(bool second, uint at) {
    return wide(second ? up_4[at] : weight_4[at]);
}

vec4 load_weight(bool second, uint row, uint k) {
    return second ? load_up(row, k, push.width) : load_first(row, k, push.width);
}
#else
#define WEIGHT_ROWS WEIGHT_ROW(push.n)

bool is_up(uint n) {
    return false;
}

uint weight_row(uint n) {
    return WEIGHT_ROW(n);
}

vec4 weight_quad(bool second, uint at) {
    return wide(weight_4[at]);
}

vec4 load_weight(bool second, uint row, uint k) {
    return load_first(row, k, WEIGHT_ROWS);
}
#endif

#if defined(NORMED) || defined(FOLDED)
LOAD(load_norm_weight, norm_weight)
#endif
#ifdef NORMED
LOAD(load_norm_bias, norm_bias)

// -m r and r of a row.
vec2 centring_of(vec2 moment) {
    return vec2(-moment.x * moment.y, moment.y);
}

// (x - m) r scale + shift in two steps instead of three; 0 past the end of a row, where scale and shift are 0. Compared
// with a subtraction the error is half a unit of m r; the mean is equally inaccurate.
vec4 normed(vec4 quad, vec2 centring, vec4 scale, vec4 shift) {
    return fma(fma(quad, vec4(centring.y), vec4(centring.x)), scale, shift);
}
#endif

#ifdef GATED
// The row's gates, whose columns are finished immediately before those of up.
vec4 gate;

void finish(uint row, uint n, vec4 quad) {
    if (!is_up(n)) {
        gate = quad;
        return;
    }
    uint own = weight_row(n);
    uint at = row * push.y_columns + push.column + own;
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        quad[i] *= activate(ACTIVATION, gate[i]);
    }
    if (own < push.width) {
        STORE_QUAD(y, VECTOR_Y, own, push.width)
    }
}
#else
#ifdef FOLDED
float unfolded(float sum, vec2 moment, vec2 column) {
    return fma(moment.y, fma(-moment.x, column.x, sum), column.y);
}
#endif

// Writes y[row, push.column + n] from the finished sum over k.
void finish_one(uint row, uint n, float sum) {
    uint column = push.column + n;
#ifdef BIASED
    if (BIAS) {
        sum += bias[BIAS_AT(column)];
    }
#else
    sum = unfolded(sum, moments[row], columns[column]);
#endif
    float value = activate(ACTIVATION, sum);
    uint at = Y_ROW(row) * push.y_columns + column;
#ifdef ADDS
    if (RESIDUAL) {
        value += residual[at];
    }
#endif
    y[at] = value;
}

// Writes columns n .. n + 3; at least column n belongs to the result.
void finish(uint row, uint n, vec4 sum) {
    if (VECTOR_Y) {
        uint column = push.column + n;
#ifdef BIASED
        if (BIAS) {
            sum += bias_4[BIAS_AT(column) / 4u];
        }
#else
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            sum[i] = unfolded(sum[i], moments[row], columns[column + i]);
        }
#endif
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            sum[i] = activate(ACTIVATION, sum[i]);
        }
        uint at = (Y_ROW(row) * push.y_columns + column) / 4u;
#ifdef ADDS
        if (RESIDUAL) {
            sum += wide(residual_4[at]);
        }
#endif
        STORE_RESULT(at, sum)
        return;
    }
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        if (n + i < push.n) {
            finish_one(row, n + i, sum[i]);
        }
    }
}
#endif
