// BitNet's linear layers in Metal Shading Language 2.1, in float32, for any sizes.
//
// Not compiled by Apple's compiler and not run on a GPU; run on a CPU through a stand-in for Metal's library, beside float64.
//
// Dispatch: along x alone, in threadgroups of at most 256 threads; any number of these gives the result, a thread for each element
// of the result is a good one. Sizes are at run time, in the block of parameters, 4 bytes a member. Compile without fast math.
// Packed weights: of `bits` 1 eight signs a byte, 1 for +1, of 2 four ternary values, v + 1, of 8 an int8; the first column is in
// the lowest bits, and each row begins with a byte. w = value / weight_scale, with weight_scale [1], [N] or [N, groups] by
// `scale_count`, without it 1. What "?" follows may be any buffer where it is not used. Elements of a tensor: below 2^32; columns
// that share a scale: up to 131,072 of bits 8.
//
// Buffers, by function: index, name, type, meaning.
//
// bitlinear_forward: y = (q w^T) / s + bias, (q, s) of each row as of quantize_activations; sums of integers are exact
//   0  input         const float*   [batch_size, input_size]
//   1  weights       const uchar*   packed [output_size, input_size]
//   2  bias?         const float*   [output_size], where has_bias
//   3  output        float*         [batch_size, output_size]; NaN where a row of input is not finite
//   4  weight_scale? const float*   as above
//   5  parameters    bitlinear_forward_parameters
// bitlinear_backward_input: grad_input = grad_output w, straight through the rounding
//   0  grad_output   const float*   [batch_size, output_size]
//   1  weights       const uchar*   packed [output_size, input_size]
//   2  grad_input    float*         [batch_size, input_size]
//   3  weight_scale? const float*   as above
//   4  parameters    bitlinear_backward_input_parameters
// binarize_weights: signs, 1 where w > 0, and scale = n / max(sum |w|, 1e-5 n); each threadgroup sums all: dispatch one
//   0  weights       const float*   [rows, columns]
//   1  output        uchar*         packed [rows, columns], of bits 1
//   2  scale         float*         [1]; NaN where a weight is not finite
//   3  parameters    binarize_weights_parameters
// quantize_activations: q = clamp(round(x s), -128, 127), ties to even, s = 127 / max(max |x|, 1e-5) of a row
//   0  input         const float*   [rows, columns]
//   1  output        char*          [rows, columns]; 0 where the row is not finite
//   2  scale         float*         [rows]; NaN where the row is not finite
//   3  parameters    quantize_activations_parameters

#include <metal_stdlib>
using namespace metal;

struct bitlinear_forward_parameters {
    uint input_size;
    uint output_size;
    uint batch_size;
    uint bits;         // of a weight: 1, 2 or 8; default 1
    uint group_size;   // columns of a row that share a scale, 0 for all; default 0
    uint scale_count;  // elements of weight_scale, 0 without it; default 1
    uint has_bias;     // whether there is a bias, 0 or 1
};

struct bitlinear_backward_input_parameters {
    uint input_size;
    uint output_size;
    uint batch_size;
    uint bits;         // of a weight: 1, 2 or 8; default 1
    uint group_size;   // columns of a row that share a scale, 0 for all; default 0
    uint scale_count;  // elements of weight_scale, 0 without it; default 1
};

struct binarize_weights_parameters {
    uint rows;
    uint columns;
};

struct quantize_activations_parameters {
    uint rows;
    uint columns;
};

// Columns of a row that a threadgroup holds as integers.
#define BITLINEAR_CHUNK 1024u

// The value of a packed weight.
static inline int bitlinear_value(const device uchar* weights, uint row, uint column, uint columns, uint bits) {
    uint each = 8u / bits;
    uint byte = weights[row * ((columns + each - 1u) / each) + column / each];
    if (bits == 8u) {
        return int(byte ^ 128u) - 128;
    }
    uint code = byte >> (bits * (column % each));
    return bits == 2u ? int(code & 3u) - 1 : 2 * int(code & 1u) - 1;
}

// The scale of a weight.
static inline float bitlinear_scale(
    const device float* scale, uint row, uint column, uint columns, uint group_size, uint scale_count) {
    if (scale_count < 2u) {
        return scale_count == 0u ? 1.0f : scale[0];
    }
    return group_size == 0u ? scale[row] : scale[row * ((columns + group_size - 1u) / group_size) + column / group_size];
}

// The largest number of a threadgroup, whose threads all call this.
static inline uint bitlinear_largest(uint own, threadgroup uint* parts, uint lane, uint threads) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    parts[lane] = own;
    for (uint step = 128u; step > 0u; step /= 2u) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lane < step && lane + step < threads) {
            parts[lane] = max(parts[lane], parts[lane + step]);
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return parts[0];
}

// The magnitude of a number as an integer, of which infinity and NaN are above all numbers.
static inline uint bitlinear_magnitude(float x) {
    return as_type<uint>(x) & 0x7fffffffu;
}

// What a row's numbers are multiplied by: 127 / max |x|.
static inline float bitlinear_row_scale(
    const device float* x, uint columns, threadgroup uint* parts, uint lane, uint threads) {
    uint own = 0u;
    for (uint column = lane; column < columns; column += threads) {
        own = max(own, bitlinear_magnitude(x[column]));
    }
    uint most = bitlinear_largest(own, parts, lane, threads);
    return most < 0x7f800000u ? 127.0f / max(as_type<float>(most), 1e-5f) : as_type<float>(0x7fc00000u);
}

static inline int bitlinear_integer(float x, float scale) {
    return isnan(scale) ? 0 : clamp(int(rint(clamp(x * scale, -512.0f, 512.0f))), -128, 127);
}

// A threadgroup computes as many columns of a row as it has threads, and holds the row's integers piece by piece.
kernel void bitlinear_forward(
    const device float* input [[buffer(0)]],
    const device uchar* weights [[buffer(1)]],
    const device float* bias [[buffer(2)]],
    device float* output [[buffer(3)]],
    const device float* weight_scale [[buffer(4)]],
    constant bitlinear_forward_parameters& parameters [[buffer(5)]],
    uint group [[threadgroup_position_in_grid]],
    uint groups [[threadgroups_per_grid]],
    uint lane [[thread_position_in_threadgroup]],
    uint threads [[threads_per_threadgroup]])
{
    threadgroup uint parts[256];
    threadgroup int integers[BITLINEAR_CHUNK];
    uint columns = parameters.input_size;
    uint size = parameters.group_size == 0u ? columns : parameters.group_size;
    uint blocks = (parameters.output_size + threads - 1u) / threads;
    for (uint tile = group; tile < blocks * parameters.batch_size; tile += groups) {
        uint row = tile / blocks;
        uint n = tile % blocks * threads + lane;
        const device float* x = input + row * columns;
        float scale = bitlinear_row_scale(x, columns, parts, lane, threads);
        float sum = 0.0f;
        int products = 0;
        uint left = size;
        for (uint start = 0u; start < columns; start += BITLINEAR_CHUNK) {
            uint count = min(BITLINEAR_CHUNK, columns - start);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            for (uint i = lane; i < count; i += threads) {
                integers[i] = bitlinear_integer(x[start + i], scale);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            for (uint i = 0u; n < parameters.output_size && i < count; i++) {
                uint column = start + i;
                products += integers[i] * bitlinear_value(weights, n, column, columns, parameters.bits);
                left--;
                if (left == 0u || column + 1u == columns) {
                    sum += float(products) /
                           bitlinear_scale(weight_scale, n, column, columns, parameters.group_size, parameters.scale_count);
                    products = 0;
                    left = size;
                }
            }
        }
        if (n < parameters.output_size) {
            float y = sum / scale;
            output[row * parameters.output_size + n] = parameters.has_bias != 0u ? y + bias[n] : y;
        }
    }
}

kernel void bitlinear_backward_input(
    const device float* grad_output [[buffer(0)]],
    const device uchar* weights [[buffer(1)]],
    device float* grad_input [[buffer(2)]],
    const device float* weight_scale [[buffer(3)]],
    constant bitlinear_backward_input_parameters& parameters [[buffer(4)]],
    uint position [[thread_position_in_grid]],
    uint grid [[threads_per_grid]])
{
    uint columns = parameters.input_size;
    for (uint place = position; place < parameters.batch_size * columns; place += grid) {
        uint row = place / columns;
        uint column = place % columns;
        float sum = 0.0f;
        for (uint n = 0u; n < parameters.output_size; n++) {
            float value = float(bitlinear_value(weights, n, column, columns, parameters.bits));
            float scale =
                bitlinear_scale(weight_scale, n, column, columns, parameters.group_size, parameters.scale_count);
            sum += grad_output[row * parameters.output_size + n] * (value / scale);
        }
        grad_input[place] = sum;
    }
}

kernel void binarize_weights(
    const device float* weights [[buffer(0)]],
    device uchar* output [[buffer(1)]],
    device float* scale [[buffer(2)]],
    constant binarize_weights_parameters& parameters [[buffer(3)]],
    uint group [[threadgroup_position_in_grid]],
    uint groups [[threadgroups_per_grid]],
    uint lane [[thread_position_in_threadgroup]],
    uint threads [[threads_per_threadgroup]])
{
    threadgroup uint parts[256];
    threadgroup float sums[256];
    uint count = parameters.rows * parameters.columns;
    uint most = 0u;
    // Sums of 64 numbers, and of these.
    float sum = 0.0f;
    float part = 0.0f;
    uint turn = 0u;
    for (uint i = lane; i < count; i += threads) {
        most = max(most, bitlinear_magnitude(weights[i]));
        part += fabs(weights[i]);
        turn++;
        if (turn % 64u == 0u) {
            sum += part;
            part = 0.0f;
        }
    }
    sums[lane] = sum + part;
    most = bitlinear_largest(most, parts, lane, threads);
    for (uint step = 128u; step > 0u; step /= 2u) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lane < step && lane + step < threads) {
            sums[lane] += sums[lane + step];
        }
    }
    if (group == 0u && lane == 0u) {
        float elements = float(max(count, 1u));
        bool finite = most < 0x7f800000u && !isinf(sums[0]);
        scale[0] = finite ? elements / max(sums[0], 1e-5f * elements) : as_type<float>(0x7fc00000u);
    }
    uint row_bytes = (parameters.columns + 7u) / 8u;
    for (uint place = group * threads + lane; place < parameters.rows * row_bytes; place += groups * threads) {
        uint first = place % row_bytes * 8u;
        uint start = place / row_bytes * parameters.columns;
        uint byte = 0u;
        for (uint column = first; column < min(first + 8u, parameters.columns); column++) {
            byte |= (weights[start + column] > 0.0f ? 1u : 0u) << (column - first);
        }
        output[place] = uchar(byte);
    }
}

kernel void quantize_activations(
    const device float* input [[buffer(0)]],
    device char* output [[buffer(1)]],
    device float* scale [[buffer(2)]],
    constant quantize_activations_parameters& parameters [[buffer(3)]],
    uint group [[threadgroup_position_in_grid]],
    uint groups [[threadgroups_per_grid]],
    uint lane [[thread_position_in_threadgroup]],
    uint threads [[threads_per_threadgroup]])
{
    threadgroup uint parts[256];
    for (uint row = group; row < parameters.rows; row += groups) {
        uint start = row * parameters.columns;
        float factor = bitlinear_row_scale(input + start, parameters.columns, parts, lane, threads);
        for (uint column = lane; column < parameters.columns; column += threads) {
            output[start + column] = char(bitlinear_integer(input[start + column], factor));
        }
        if (lane == 0u) {
            scale[row] = factor;
        }
    }
}
