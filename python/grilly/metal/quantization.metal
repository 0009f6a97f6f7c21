// BitNet's quantisers, and a product of mixed precision, in Metal Shading Language 2.1, for any sizes.
//
// Not compiled by Apple's compiler and not run on a GPU; run on a CPU through a stand-in for Metal's library, beside float64.
//
// Dispatch: along x alone, in threadgroups of at most 256 threads; any number of these gives the result, a thread for each element
// of the result is a good one. Sizes are at run time, in the block of parameters, 4 bytes a member. Compile without fast math.
// Packed weights: of `bits` 1 eight signs a byte, 1 for +1, of 2 four ternary values, v + 1, of 8 an int8; the first column is in
// the lowest bits, and each row begins with a byte. A scale is what numbers were multiplied by; it is NaN, and q is 0, where a
// number that shares it is not finite. What "?" follows may be any buffer where it is not used. Elements of a tensor: below 2^32.
//
// Buffers, by function: index, name, type, meaning.
//
// quantize_weights_1bit: signs, 1 where w > 0, and scale = n / max(sum |w|, 1e-5 n) of each group of neighbours in a row
//   0  weights       const float*   [rows, columns]
//   1  output        uchar*         packed [rows, columns], of bits 1
//   2  scale         float*         [rows, ceil(columns / group_size)]
//   3  parameters    quantize_weights_1bit_parameters
// quantize_activations_8bit: q = clamp(round(x s) + zero, -128, 127), s = 255 / max(largest - least, 1e-5) of a row and of 0
//   0  input         const float*   [rows, columns]
//   1  output        char*          [rows, columns]
//   2  scale         float*         [rows]
//   3  zero          int*           [rows], clamp(-128 - round(least s), -128, 127)
//   4  parameters    quantize_activations_8bit_parameters
// dequantize_weights_1bit: w = sign / scale
//   0  weights       const uchar*   packed [rows, columns], of bits 1
//   1  scale         const float*   [rows, ceil(columns / group_size)], or [1] for a group_size of 0
//   2  output        float*         [rows, columns]
//   3  parameters    dequantize_weights_1bit_parameters
// dequantize_activations_8bit: x = (q - zero) / scale
//   0  input         const char*    [rows, columns]
//   1  scale         const float*   [rows], or [1] with shared_scale
//   2  output        float*         [rows, columns]
//   3  zero?         const int*     as scale, where has_zero, else 0
//   4  parameters    dequantize_activations_8bit_parameters
// dynamic_quantize_activations: as quantize_activations_8bit, by the range of all; each threadgroup finds it: dispatch one
//   0  input         const float*   [count]
//   1  output        char*          [count]
//   2  scale         float*         [1]
//   3  zero          int*           [1]
//   4  parameters    dynamic_quantize_activations_parameters
// quantize_gradients: q = floor(x s + u), s = 127 / max(max |x|, 1e-5) of all, u in 0 .. 1 at random; dispatch one threadgroup
//   0  gradients     const float*   [count]
//   1  output        char*          [count]
//   2  scale         float*         [1]
//   3  parameters    quantize_gradients_parameters
// mixed_precision_matmul: y = x w^T, w = value / weight_scale, in float32
//   0  input         const float*   [batch_size, input_size]
//   1  weights       const uchar*   packed [output_size, input_size]
//   2  output        float*         [batch_size, output_size]
//   3  weight_scale? const float*   [1], [output_size] or [output_size, ceil(input_size / group_size)], by scale_count, else 1
//   4  parameters    mixed_precision_matmul_parameters

#include <metal_stdlib>
using namespace metal;

struct quantize_weights_1bit_parameters {
    uint rows;
    uint columns;
    uint group_size;  // columns of a row that share a scale; default 128
};

struct quantize_activations_8bit_parameters {
    uint rows;
    uint columns;
};

struct dequantize_weights_1bit_parameters {
    uint rows;
    uint columns;
    uint group_size;  // columns of a row that share a scale, 0 for one scale in all; default 128
};

struct dequantize_activations_8bit_parameters {
    uint rows;
    uint columns;
    uint shared_scale;  // whether all rows share a scale, 0 or 1; default 0
    uint has_zero;      // whether there are zero points, 0 or 1
};

struct dynamic_quantize_activations_parameters {
    uint count;
};

struct quantize_gradients_parameters {
    uint count;
    uint seed_low;   // of the random numbers, those of grilly's dropout
    uint seed_high;  // its upper 32 bits; default 0
};

struct mixed_precision_matmul_parameters {
    uint input_size;
    uint output_size;
    uint batch_size;
    uint bits;         // of a weight: 1, 2 or 8; default 1
    uint group_size;   // columns of a row that share a scale, 0 for all; default 0
    uint scale_count;  // elements of weight_scale, 0 without it; default 1
};

static inline float quantization_nan() {
    return as_type<float>(0x7fc00000u);
}

// The magnitude of a number as an integer, of which infinity and NaN are above all numbers.
static inline uint quantization_magnitude(float x) {
    return as_type<uint>(x) & 0x7fffffffu;
}

// The largest number of a threadgroup, whose threads all call this.
static inline uint quantization_largest(uint own, threadgroup uint* parts, uint lane, uint threads) {
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

// Quantises `count` numbers by their range, which all threads of a threadgroup find; `groups` of them share the rounding.
static inline void quantization_affine(
    const device float* x, device char* q, device float* scale, device int* zero, threadgroup uint* parts, uint count,
    uint group, uint groups, uint lane, uint threads) {
    uint most = 0u;
    // The largest positive number's bits, and those of the negative one of the largest magnitude.
    uint above = 0u;
    uint below = 0u;
    for (uint i = lane; i < count; i += threads) {
        most = max(most, quantization_magnitude(x[i]));
        above = max(above, x[i] > 0.0f ? quantization_magnitude(x[i]) : 0u);
        below = max(below, x[i] < 0.0f ? quantization_magnitude(x[i]) : 0u);
    }
    most = quantization_largest(most, parts, lane, threads);
    above = quantization_largest(above, parts, lane, threads);
    below = quantization_largest(below, parts, lane, threads);
    float factor = quantization_nan();
    int middle = 0;
    if (most < 0x7f800000u) {
        // Halves, whose difference is finite.
        float least = -as_type<float>(below);
        factor = 127.5f / max(0.5f * as_type<float>(above) - 0.5f * least, 5e-6f);
        middle = clamp(-128 - int(rint(least * factor)), -128, 127);
    }
    for (uint i = group * threads + lane; i < count; i += groups * threads) {
        int rounded = isnan(factor) ? 0 : int(rint(clamp(x[i] * factor, -512.0f, 512.0f)));
        q[i] = char(clamp(rounded + middle, -128, 127));
    }
    if (group == 0u && lane == 0u) {
        scale[0] = factor;
        zero[0] = middle;
    }
}

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011) of the counter `quad`.
static inline uint4 quantization_philox(uint quad, uint2 key) {
    uint4 counter = uint4(quad, 0u, 0u, 0u);
    for (uint turn = 0u; turn < 10u; turn++) {
        uint2 low = uint2(counter.x * 0xd2511f53u, counter.z * 0xcd9e8d57u);
        uint2 high = uint2(mulhi(counter.x, 0xd2511f53u), mulhi(counter.z, 0xcd9e8d57u));
        counter = uint4(high.y ^ counter.y ^ key.x, low.y, high.x ^ counter.w ^ key.y, low.x);
        key = uint2(key.x + 0x9e3779b9u, key.y + 0xbb67ae85u);
    }
    return counter;
}

kernel void quantize_weights_1bit(
    const device float* weights [[buffer(0)]],
    device uchar* output [[buffer(1)]],
    device float* scale [[buffer(2)]],
    constant quantize_weights_1bit_parameters& parameters [[buffer(3)]],
    uint position [[thread_position_in_grid]],
    uint grid [[threads_per_grid]])
{
    uint columns = parameters.columns;
    uint groups = (columns + parameters.group_size - 1u) / parameters.group_size;
    for (uint place = position; place < parameters.rows * groups; place += grid) {
        uint first = place % groups * parameters.group_size;
        uint last = min(first + parameters.group_size, columns);
        uint start = place / groups * columns;
        uint most = 0u;
        // Sums of 64 numbers, and of these.
        float sum = 0.0f;
        for (uint piece = first; piece < last; piece += 64u) {
            float part = 0.0f;
            for (uint column = piece; column < min(piece + 64u, last); column++) {
                most = max(most, quantization_magnitude(weights[start + column]));
                part += fabs(weights[start + column]);
            }
            sum += part;
        }
        float elements = float(last - first);
        bool finite = most < 0x7f800000u && !isinf(sum);
        scale[place] = finite ? elements / max(sum, 1e-5f * elements) : quantization_nan();
    }
    uint row_bytes = (columns + 7u) / 8u;
    for (uint place = position; place < parameters.rows * row_bytes; place += grid) {
        uint first = place % row_bytes * 8u;
        uint start = place / row_bytes * columns;
        uint byte = 0u;
        for (uint column = first; column < min(first + 8u, columns); column++) {
            byte |= (weights[start + column] > 0.0f ? 1u : 0u) << (column - first);
        }
        output[place] = uchar(byte);
    }
}

kernel void quantize_activations_8bit(
    const device float* input [[buffer(0)]],
    device char* output [[buffer(1)]],
    device float* scale [[buffer(2)]],
    device int* zero [[buffer(3)]],
    constant quantize_activations_8bit_parameters& parameters [[buffer(4)]],
    uint group [[threadgroup_position_in_grid]],
    uint groups [[threadgroups_per_grid]],
    uint lane [[thread_position_in_threadgroup]],
    uint threads [[threads_per_threadgroup]])
{
    threadgroup uint parts[256];
    for (uint row = group; row < parameters.rows; row += groups) {
        uint start = row * parameters.columns;
        quantization_affine(
            input + start, output + start, scale + row, zero + row, parts, parameters.columns, 0u, 1u, lane, threads);
    }
}

kernel void dequantize_weights_1bit(
    const device uchar* weights [[buffer(0)]],
    const device float* scale [[buffer(1)]],
    device float* output [[buffer(2)]],
    constant dequantize_weights_1bit_parameters& parameters [[buffer(3)]],
    uint position [[thread_position_in_grid]],
    uint grid [[threads_per_grid]])
{
    uint columns = parameters.columns;
    uint size = parameters.group_size;
    uint groups = size == 0u ? 0u : (columns + size - 1u) / size;
    for (uint place = position; place < parameters.rows * columns; place += grid) {
        uint row = place / columns;
        uint column = place % columns;
        uint byte = weights[row * ((columns + 7u) / 8u) + column / 8u];
        float sign = ((byte >> (column % 8u)) & 1u) != 0u ? 1.0f : -1.0f;
        output[place] = sign / scale[size == 0u ? 0u : row * groups + column / size];
    }
}

kernel void dequantize_activations_8bit(
    const device char* input [[buffer(0)]],
    const device float* scale [[buffer(1)]],
    device float* output [[buffer(2)]],
    const device int* zero [[buffer(3)]],
    constant dequantize_activations_8bit_parameters& parameters [[buffer(4)]],
    uint position [[thread_position_in_grid]],
    uint grid [[threads_per_grid]])
{
    for (uint place = position; place < parameters.rows * parameters.columns; place += grid) {
        uint own = parameters.shared_scale != 0u ? 0u : place / parameters.columns;
        int middle = parameters.has_zero != 0u ? zero[own] : 0;
        output[place] = float(int(input[place]) - middle) / scale[own];
    }
}

kernel void dynamic_quantize_activations(
    const device float* input [[buffer(0)]],
    device char* output [[buffer(1)]],
    device float* scale [[buffer(2)]],
    device int* zero [[buffer(3)]],
    constant dynamic_quantize_activations_parameters& parameters [[buffer(4)]],
    uint group [[threadgroup_position_in_grid]],
    uint groups [[threadgroups_per_grid]],
    uint lane [[thread_position_in_threadgroup]],
    uint threads [[threads_per_threadgroup]])
{
    threadgroup uint parts[256];
    quantization_affine(input, output, scale, zero, parts, parameters.count, group, groups, lane, threads);
}

kernel void quantize_gradients(
    const device float* gradients [[buffer(0)]],
    device char* output [[buffer(1)]],
    device float* scale [[buffer(2)]],
    constant quantize_gradients_parameters& parameters [[buffer(3)]],
    uint group [[threadgroup_position_in_grid]],
    uint groups [[threadgroups_per_grid]],
    uint lane [[thread_position_in_threadgroup]],
    uint threads [[threads_per_threadgroup]])
{
    threadgroup uint parts[256];
    uint own = 0u;
    for (uint i = lane; i < parameters.count; i += threads) {
        own = max(own, quantization_magnitude(gradients[i]));
    }
    uint most = quantization_largest(own, parts, lane, threads);
    bool finite = most < 0x7f800000u;
    float factor = finite ? 127.0f / max(as_type<float>(most), 1e-5f) : quantization_nan();
    for (uint quad = group * threads + lane; quad < (parameters.count + 3u) / 4u; quad += groups * threads) {
        uint4 words = quantization_philox(quad, uint2(parameters.seed_low, parameters.seed_high));
        for (uint i = 4u * quad; i < min(4u * quad + 4u, parameters.count); i++) {
            float scaled = finite ? clamp(gradients[i] * factor, -512.0f, 512.0f) : 0.0f;
            float lower = floor(scaled);
            bool up = float(words[i % 4u] >> 8u) < (scaled - lower) * 16777216.0f;
            output[i] = char(clamp(int(lower) + (up ? 1 : 0), -128, 127));
        }
    }
    if (group == 0u && lane == 0u) {
        scale[0] = factor;
    }
}

kernel void mixed_precision_matmul(
    const device float* input [[buffer(0)]],
    const device uchar* weights [[buffer(1)]],
    device float* output [[buffer(2)]],
    const device float* weight_scale [[buffer(3)]],
    constant mixed_precision_matmul_parameters& parameters [[buffer(4)]],
    uint position [[thread_position_in_grid]],
    uint grid [[threads_per_grid]])
{
    uint columns = parameters.input_size;
    uint each = 8u / parameters.bits;
    uint row_bytes = (columns + each - 1u) / each;
    uint size = parameters.group_size == 0u ? columns : parameters.group_size;
    uint groups = (columns + size - 1u) / max(size, 1u);
    for (uint place = position; place < parameters.batch_size * parameters.output_size; place += grid) {
        uint n = place % parameters.output_size;
        uint start = place / parameters.output_size * columns;
        // Sums of 64 products, and of these.
        float sum = 0.0f;
        for (uint piece = 0u; piece < columns; piece += 64u) {
            float part = 0.0f;
            for (uint column = piece; column < min(piece + 64u, columns); column++) {
                uint byte = weights[n * row_bytes + column / each];
                uint code = byte >> (parameters.bits * (column % each));
                int value = parameters.bits == 8u ? int(byte ^ 128u) - 128
                            : parameters.bits == 2u ? int(code & 3u) - 1
                                                    : 2 * int(code & 1u) - 1;
                uint own = parameters.scale_count < 2u ? 0u : n * groups + column / size;
                float scale = parameters.scale_count == 0u ? 1.0f : weight_scale[own];
                part += input[start + column] * (float(value) / scale);
            }
            sum += part;
        }
        output[place] = sum;
    }
}
