//! Encoders and dispatches of single functions, whose buffers have names and sizes.

use super::command::{Buffer, CommandBuffer, ComputeEncoder};
use super::functions::BitNetShaderFunction;
use super::shaders::BitNetShaders;
use grilly::Result;

/// An encoder with the pipeline of [`BitNetShaderFunction::BitLinearForward`].
///
/// # Errors
/// As [`BitNetShaders::get_pipeline`].
pub fn create_bitlinear_forward_encoder(
    shaders: &BitNetShaders,
    command_buffer: &CommandBuffer,
) -> Result<ComputeEncoder> {
    shaders.create_compute_encoder_with_pipeline(command_buffer, BitNetShaderFunction::BitLinearForward)
}

/// Adds a command of [`BitNetShaderFunction::BitLinearForward`]: rows `[batch_size, input_size]` and a weight of `output_size`
/// rows give `[batch_size, output_size]`, whatever the shapes of the buffers.
#[allow(clippy::too_many_arguments)] // as the function's documentation has them
pub fn dispatch_bitlinear_forward(
    encoder: &ComputeEncoder,
    input: &Buffer,
    weights: &Buffer,
    bias: Option<&Buffer>,
    output: &Buffer,
    input_size: usize,
    output_size: usize,
    batch_size: usize,
    threads: [u32; 3],
    threadgroup: [u32; 3],
) {
    encoder.set_buffer_as(0, input, Some(vec![batch_size, input_size]));
    encoder.set_buffer_as(1, weights, Some(by_rows(weights, output_size)));
    encoder.set_buffer(2, bias, 0);
    encoder.set_buffer_as(3, output, Some(vec![batch_size, output_size]));
    encoder.dispatch_threads(threads, threadgroup);
}

/// An encoder with the pipeline of [`BitNetShaderFunction::BitLinearBackwardInput`].
///
/// # Errors
/// As [`BitNetShaders::get_pipeline`].
pub fn create_bitlinear_backward_input_encoder(
    shaders: &BitNetShaders,
    command_buffer: &CommandBuffer,
) -> Result<ComputeEncoder> {
    shaders.create_compute_encoder_with_pipeline(command_buffer, BitNetShaderFunction::BitLinearBackwardInput)
}

/// Adds a command of [`BitNetShaderFunction::BitLinearBackwardInput`]: gradients `[batch_size, output_size]` give those of the
/// input, `[batch_size, input_size]`.
#[allow(clippy::too_many_arguments)] // those of the forward function
pub fn dispatch_bitlinear_backward_input(
    encoder: &ComputeEncoder,
    grad_output: &Buffer,
    weights: &Buffer,
    grad_input: &Buffer,
    input_size: usize,
    output_size: usize,
    batch_size: usize,
    threads: [u32; 3],
    threadgroup: [u32; 3],
) {
    encoder.set_buffer_as(0, grad_output, Some(vec![batch_size, output_size]));
    encoder.set_buffer_as(1, weights, Some(by_rows(weights, output_size)));
    encoder.set_buffer_as(2, grad_input, Some(vec![batch_size, input_size]));
    encoder.dispatch_threads(threads, threadgroup);
}

/// An encoder with the pipeline of a function of [`dispatch_quantization`], such as
/// [`BitNetShaderFunction::QuantizeActivations`].
///
/// # Errors
/// As [`BitNetShaders::get_pipeline`].
pub fn create_quantization_encoder(
    shaders: &BitNetShaders,
    command_buffer: &CommandBuffer,
    function: BitNetShaderFunction,
) -> Result<ComputeEncoder> {
    shaders.create_compute_encoder_with_pipeline(command_buffer, function)
}

/// Adds a command that rounds numbers to integers and scales, of functions of a range with their zero points.
pub fn dispatch_quantization(
    encoder: &ComputeEncoder,
    input: &Buffer,
    output: &Buffer,
    scale: &Buffer,
    zero: Option<&Buffer>,
    threads: [u32; 3],
    threadgroup: [u32; 3],
) {
    encoder.set_buffer(0, Some(input), 0);
    encoder.set_buffer(1, Some(output), 0);
    encoder.set_buffer(2, Some(scale), 0);
    encoder.set_buffer(3, zero, 0);
    encoder.dispatch_threads(threads, threadgroup);
}

/// An encoder with the pipeline of an activation, such as [`BitNetShaderFunction::GeluForward`].
///
/// # Errors
/// As [`BitNetShaders::get_pipeline`].
pub fn create_activation_encoder(
    shaders: &BitNetShaders,
    command_buffer: &CommandBuffer,
    function: BitNetShaderFunction,
) -> Result<ComputeEncoder> {
    shaders.create_compute_encoder_with_pipeline(command_buffer, function)
}

/// Adds a command of an activation's forward function.
pub fn dispatch_activation(
    encoder: &ComputeEncoder,
    input: &Buffer,
    output: &Buffer,
    threads: [u32; 3],
    threadgroup: [u32; 3],
) {
    encoder.set_buffer(0, Some(input), 0);
    encoder.set_buffer(1, Some(output), 0);
    encoder.dispatch_threads(threads, threadgroup);
}

/// The shape of a weight with so many rows, as far as its bytes fill them.
fn by_rows(weights: &Buffer, rows: usize) -> Vec<usize> {
    vec![rows, weights.array().elements() / rows.max(1)]
}
