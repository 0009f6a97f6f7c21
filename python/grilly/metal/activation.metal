// BitNet's activations, softmax, layer norm and dropout in Metal Shading Language 2.1, in float32, for any sizes.
//
// Not compiled by Apple's compiler and not run on a GPU; run on a CPU through a stand-in for Metal's library, beside float64.
//
// Dispatch: along x alone, in threadgroups of at most 256 threads; any number of these gives the result, a thread for each element
// of the result is a good one. Sizes are at run time, in the block of parameters, 4 bytes a member. Compile without fast math.
// A NaN gives NaN. Elements of a tensor: below 2^32.
//
// Buffers, by function: index, name, type, meaning.
//
// relu_forward: y = max(x, 0)
//   0  input         const float*   [count]
//   1  output        float*         [count]
//   2  parameters    relu_forward_parameters
// relu_backward: grad_input = grad_output f'(input), f' 1 where x > 0, else 0
//   0  grad_output   const float*   [count]
//   1  input         const float*   [count]
//   2  grad_input    float*         [count]
//   3  parameters    relu_backward_parameters
// gelu_forward: y = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
//   0  input         const float*   [count]
//   1  output        float*         [count]
//   2  parameters    gelu_forward_parameters
// gelu_backward: grad_input = grad_output f'(input), f' its derivative
//   0  grad_output   const float*   [count]
//   1  input         const float*   [count]
//   2  grad_input    float*         [count]
//   3  parameters    gelu_backward_parameters
// swish_forward: y = x sigmoid(x)
//   0  input         const float*   [count]
//   1  output        float*         [count]
//   2  parameters    swish_forward_parameters
// swish_backward: grad_input = grad_output f'(input), f' its derivative
//   0  grad_output   const float*   [count]
//   1  input         const float*   [count]
//   2  grad_input    float*         [count]
//   3  parameters    swish_backward_parameters
// sigmoid_forward: y = 1 / (1 + exp(-x))
//   0  input         const float*   [count]
//   1  output        float*         [count]
//   2  parameters    sigmoid_forward_parameters
// sigmoid_backward: grad_input = grad_output f'(input), f' its derivative
//   0  grad_output   const float*   [count]
//   1  input         const float*   [count]
//   2  grad_input    float*         [count]
//   3  parameters    sigmoid_backward_parameters
// tanh_forward: y = tanh(x)
//   0  input         const float*   [count]
//   1  output        float*         [count]
//   2  parameters    tanh_forward_parameters
// tanh_backward: grad_input = grad_output f'(input), f' its derivative
//   0  grad_output   const float*   [count]
//   1  input         const float*   [count]
//   2  grad_input    float*         [count]
//   3  parameters    tanh_backward_parameters
// leaky_relu_forward: y = x where x >= 0, else negative_slope x
//   0  input         const float*   [count]
//   1  output        float*         [count]
//   2  parameters    leaky_relu_forward_parameters
// leaky_relu_backward: grad_input = grad_output f'(input), f' 1 where x > 0, else negative_slope
//   0  grad_output   const float*   [count]
//   1  input         const float*   [count]
//   2  grad_input    float*         [count]
//   3  parameters    leaky_relu_backward_parameters
// softmax_forward: y = exp(x - max x) / sum exp(x - max x) of a row
//   0  input         const float*   [rows, columns]
//   1  output        float*         [rows, columns]
//   2  parameters    softmax_forward_parameters
// softmax_backward: grad_input = y (grad_output - sum(grad_output y)), y the result of softmax_forward
//   0  grad_output   const float*   [rows, columns]
//   1  output        const float*   [rows, columns], the result of softmax_forward
//   2  grad_input    float*         [rows, columns]
//   3  parameters    softmax_backward_parameters
// layer_norm_forward: y = (x - mean) / sqrt(variance + eps) weight + bias of a row
//   0  input         const float*   [rows, columns]
//   1  weight        const float*   [columns]
//   2  bias          const float*   [columns]
//   3  output        float*         [rows, columns]
//   4  parameters    layer_norm_forward_parameters
// fused_relu_dropout: y = max(x, 0) / (1 - p) where kept, else 0; kept where u >= p, u in 0 .. 1 of grilly's dropout by seed
//   0  input         const float*   [count]
//   1  output        float*         [count]
//   2  parameters    fused_relu_dropout_parameters

#include <metal_stdlib>
using namespace metal;

struct relu_forward_parameters {
    uint count;
};

struct relu_backward_parameters {
    uint count;
};

struct gelu_forward_parameters {
    uint count;
};

struct gelu_backward_parameters {
    uint count;
};

struct swish_forward_parameters {
    uint count;
};

struct swish_backward_parameters {
    uint count;
};

struct sigmoid_forward_parameters {
    uint count;
};

struct sigmoid_backward_parameters {
    uint count;
};

struct tanh_forward_parameters {
    uint count;
};

struct tanh_backward_parameters {
    uint count;
};

struct leaky_relu_forward_parameters {
    uint count;
    float negative_slope;  // default 0.01
};

struct leaky_relu_backward_parameters {
    uint count;
    float negative_slope;  // default 0.01
};

struct softmax_forward_parameters {
    uint rows;
    uint columns;
};

struct softmax_backward_parameters {
    uint rows;
    uint columns;
};

struct layer_norm_forward_parameters {
    uint rows;
    uint columns;
    float eps;  // default 1e-5
};

struct fused_relu_dropout_parameters {
    uint count;
    float p;         // probability of an element to become 0, 0 .. 1; default 0.5
    uint seed_low;   // of the random numbers, those of grilly's dropout
    uint seed_high;  // its upper 32 bits; default 0
};

// 1 / (1 + exp(-x)), with the exponential of the negative side, which cannot overflow.
static inline float activation_sigmoid(float x) {
    float e = precise::exp(-fabs(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

// x sigmoid(2 u) = x (1 + tanh u) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3).
static inline float activation_gelu(float x) {
    return x * activation_sigmoid(1.5957691216f * (x + 0.044715f * x * x * x));
}

// From |x| = 20 on the second term is 0, and a square could overflow.
static inline float activation_gelu_slope(float x) {
    float t = isinf(x) ? x : clamp(x, -20.0f, 20.0f);
    float twice = 1.5957691216f * (t + 0.044715f * t * t * t);
    float y = activation_sigmoid(twice);
    return y + t * (y * activation_sigmoid(-twice)) * (1.5957691216f * (1.0f + 0.134145f * t * t));
}

static inline float activation_swish_slope(float x) {
    float y = activation_sigmoid(x);
    return y + x * y * activation_sigmoid(-x);
}

// The sum of a threadgroup, whose threads all call this; a tree, so that its order depends on their number alone.
static inline float activation_sum(float own, threadgroup float* parts, uint lane, uint threads) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    parts[lane] = own;
    for (uint step = 128u; step > 0u; step /= 2u) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lane < step && lane + step < threads) {
            parts[lane] += parts[lane + step];
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return parts[0];
}

static inline float activation_largest(float own, threadgroup float* parts, uint lane, uint threads) {
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

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011) of the counter `quad`.
static inline uint4 activation_philox(uint quad, uint2 key) {
    uint4 counter = uint4(quad, 0u, 0u, 0u);
    for (uint turn = 0u; turn < 10u; turn++) {
        uint2 low = uint2(counter.x * 0xd2511f53u, counter.z * 0xcd9e8d57u);
        uint2 high = uint2(mulhi(counter.x, 0xd2511f53u), mulhi(counter.z, 0xcd9e8d57u));
        counter = uint4(high.y ^ counter.y ^ key.x, low.y, high.x ^ counter.w ^ key.y, low.x);
        key = uint2(key.x + 0x9e3779b9u, key.y + 0xbb67ae85u);
    }
    return counter;
}

kernel void relu_forward(
    const device float* input [[buffer(0)]],
    device float* output [[buffer(1)]],
    constant relu_forward_parameters& parameters [[buffer(2)]],
    uint position [[thread_position_in_grid]],
    uint grid [[threads_per_grid]])
{
    for (uint i = position; i < parameters.count; i += grid) {
        float x = input[i];
        output[i] = isnan(x) ? x : max(x, 0.0f);
    }
}

kernel void relu_backward(
    const device float* grad_output [[buffer(0)]],
    const device float* input [[buffer(1)]],
    device float* grad_input [[buffer(2)]],
    constant relu_backward_parameters& parameters [[buffer(3)]],
    uint position [[thread_position_in_grid]],
    uint grid [[threads_per_grid]])
{
    for (uint i = position; i < parameters.count; i += grid) {
        float x = input[i];
        grad_input[i] = grad_output[i] * (isnan(x) ? x : (x > 0.0f ? 1.0f : 0.0f));
    }
}

kernel void gelu_forward(
    const device float* input [[buffer(0)]],
    device float* output [[buffer(1)]],
    constant gelu_forward_parameters& parameters [[buffer(2)]],
    uint position [[thread_position_in_grid]],
    uint grid [[threads_per_grid]])
{
    for (uint i = position; i < parameters.count; i += grid) {
        float x = input[i];
        output[i] = activation_gelu(x);
    }
}

kernel void gelu_backward(
    const device float* grad_output [[buffer(0)]],
    const device float* input [[buffer(1)]],
    device float* grad_input [[buffer(2)]],
    constant gelu_backward_parameters& parameters [[buffer(3)]],
    uint position [[thread_position_in_grid]],
    uint grid [[threads_per_grid]])
{
    for (uint i = position; i < parameters.count; i += grid) {
        float x = input[i];
        grad_input[i] = grad_output[i] * (isnan(x) ? x : activation_gelu_slope(x));
    }
}

kernel void swish_forward(
    const device float* input [[buffer(0)]],
    device float* output [[buffer(1)]],
    constant swish_forward_parameters& parameters [[buffer(2)]],
    uint position [[thread_position_in_grid]],
    uint grid [[threads_per_grid]])
{
    for (uint i = position; i < parameters.count; i += grid) {
        float x = input[i];
        output[i] = x * activation_sigmoid(x);
    }
}

kernel void swish_backward(
    const device float* grad_output [[buffer(0)]],
    const device float* input [[buffer(1)]],
    device float* grad_input [[buffer(2)]],
    constant swish_backward_parameters& parameters [[buffer(3)]],
    uint position [[thread_position_in_grid]],
    uint grid [[threads_per_grid]])
{
    for (uint i = position; i < parameters.count; i += grid) {
        float x = input[i];
        grad_input[i] = grad_output[i] * (activation_swish_slope(x));
    }
}

kernel void sigmoid_forward(
    const device float* input [[buffer(0)]],
    device float* output [[buffer(1)]],
    constant sigmoid_forward_parameters& parameters [[buffer(2)]],
    uint position [[thread_position_in_grid]],
    uint grid [[threads_per_grid]])
{
    for (uint i = position; i < parameters.count; i += grid) {
        float x = input[i];
        output[i] = activation_sigmoid(x);
    }
}

kernel void sigmoid_backward(
    const device float* grad_output [[buffer(0)]],
    const device float* input [[buffer(1)]],
    device float* grad_input [[buffer(2)]],
    constant sigmoid_backward_parameters& parameters [[buffer(3)]],
    uint position [[thread_position_in_grid]],
    uint grid [[threads_per_grid]])
{
    for (uint i = position; i < parameters.count; i += grid) {
        float x = input[i];
        grad_input[i] = grad_output[i] * (activation_sigmoid(x) * activation_sigmoid(-x));
    }
}

kernel void tanh_forward(
    const device float* input [[buffer(0)]],
    device float* output [[buffer(1)]],
    constant tanh_forward_parameters& parameters [[buffer(2)]],
    uint position [[thread_position_in_grid]],
    uint grid [[threads_per_grid]])
{
    for (uint i = position; i < parameters.count; i += grid) {
        float x = input[i];
        output[i] = precise::tanh(x);
    }
}

kernel void tanh_backward(
    const device float* grad_output [[buffer(0)]],
    const device float* input [[buffer(1)]],
    device float* grad_input [[buffer(2)]],
    constant tanh_backward_parameters& parameters [[buffer(3)]],
    uint position [[thread_position_in_grid]],
    uint grid [[threads_per_grid]])
{
    for (uint i = position; i < parameters.count; i += grid) {
        float x = input[i];
        grad_input[i] = grad_output[i] * (4.0f * activation_sigmoid(2.0f * x) * activation_sigmoid(-2.0f * x));
    }
}

kernel void leaky_relu_forward(
    const device float* input [[buffer(0)]],
    device float* output [[buffer(1)]],
    constant leaky_relu_forward_parameters& parameters [[buffer(2)]],
    uint position [[thread_position_in_grid]],
    uint grid [[threads_per_grid]])
{
    for (uint i = position; i < parameters.count; i += grid) {
        float x = input[i];
        output[i] = x < 0.0f ? parameters.negative_slope * x : x;
    }
}

kernel void leaky_relu_backward(
    const device float* grad_output [[buffer(0)]],
    const device float* input [[buffer(1)]],
    device float* grad_input [[buffer(2)]],
    constant leaky_relu_backward_parameters& parameters [[buffer(3)]],
    uint position [[thread_position_in_grid]],
    uint grid [[threads_per_grid]])
{
    for (uint i = position; i < parameters.count; i += grid) {
        float x = input[i];
        grad_input[i] = grad_output[i] * (isnan(x) ? x : (x > 0.0f ? 1.0f : parameters.negative_slope));
    }
}

kernel void softmax_forward(
    const device float* input [[buffer(0)]],
    device float* output [[buffer(1)]],
    constant softmax_forward_parameters& parameters [[buffer(2)]],
    uint group [[threadgroup_position_in_grid]],
    uint groups [[threadgroups_per_grid]],
    uint lane [[thread_position_in_threadgroup]],
    uint threads [[threads_per_threadgroup]])
{
    threadgroup float parts[256];
    uint columns = parameters.columns;
    for (uint row = group; row < parameters.rows; row += groups) {
        const device float* x = input + row * columns;
        device float* y = output + row * columns;
        float most = as_type<float>(0xff800000u);
        for (uint column = lane; column < columns; column += threads) {
            most = max(most, x[column]);
        }
        most = activation_largest(most, parts, lane, threads);
        float sum = 0.0f;
        for (uint column = lane; column < columns; column += threads) {
            sum += precise::exp(x[column] - most);
        }
        sum = activation_sum(sum, parts, lane, threads);
        for (uint column = lane; column < columns; column += threads) {
            y[column] = precise::exp(x[column] - most) / sum;
        }
    }
}

kernel void softmax_backward(
    const device float* grad_output [[buffer(0)]],
    const device float* output [[buffer(1)]],
    device float* grad_input [[buffer(2)]],
    constant softmax_backward_parameters& parameters [[buffer(3)]],
    uint group [[threadgroup_position_in_grid]],
    uint groups [[threadgroups_per_grid]],
    uint lane [[thread_position_in_threadgroup]],
    uint threads [[threads_per_threadgroup]])
{
    threadgroup float parts[256];
    uint columns = parameters.columns;
    for (uint row = group; row < parameters.rows; row += groups) {
        uint start = row * columns;
        float sum = 0.0f;
        for (uint column = lane; column < columns; column += threads) {
            sum += grad_output[start + column] * output[start + column];
        }
        sum = activation_sum(sum, parts, lane, threads);
        for (uint column = lane; column < columns; column += threads) {
            grad_input[start + column] = output[start + column] * (grad_output[start + column] - sum);
        }
    }
}

kernel void layer_norm_forward(
    const device float* input [[buffer(0)]],
    const device float* weight [[buffer(1)]],
    const device float* bias [[buffer(2)]],
    device float* output [[buffer(3)]],
    constant layer_norm_forward_parameters& parameters [[buffer(4)]],
    uint group [[threadgroup_position_in_grid]],
    uint groups [[threadgroups_per_grid]],
    uint lane [[thread_position_in_threadgroup]],
    uint threads [[threads_per_threadgroup]])
{
    threadgroup float parts[256];
    uint columns = parameters.columns;
    for (uint row = group; row < parameters.rows; row += groups) {
        const device float* x = input + row * columns;
        float sum = 0.0f;
        for (uint column = lane; column < columns; column += threads) {
            sum += x[column];
        }
        float mean = activation_sum(sum, parts, lane, threads) / float(columns);
        float squares = 0.0f;
        for (uint column = lane; column < columns; column += threads) {
            squares += (x[column] - mean) * (x[column] - mean);
        }
        float variance = activation_sum(squares, parts, lane, threads) / float(columns);
        float deviation = precise::sqrt(variance + parameters.eps);
        for (uint column = lane; column < columns; column += threads) {
            output[row * columns + column] = (x[column] - mean) / deviation * weight[column] + bias[column];
        }
    }
}

kernel void fused_relu_dropout(
    const device float* input [[buffer(0)]],
    device float* output [[buffer(1)]],
    constant fused_relu_dropout_parameters& parameters [[buffer(2)]],
    uint position [[thread_position_in_grid]],
    uint grid [[threads_per_grid]])
{
    uint least = uint(ceil(parameters.p * 16777216.0f));
    for (uint quad = position; quad < (parameters.count + 3u) / 4u; quad += grid) {
        uint4 words = activation_philox(quad, uint2(parameters.seed_low, parameters.seed_high));
        for (uint i = 4u * quad; i < min(4u * quad + 4u, parameters.count); i++) {
            float x = isnan(input[i]) ? input[i] : max(input[i], 0.0f);
            output[i] = (words[i % 4u] >> 8u) >= least ? x / (1.0f - parameters.p) : 0.0f;
        }
    }
}
