//! Encoders and dispatches of single functions, whose buffers have names: of every row of the table, and those with sizes or for
//! several functions.

use super::command::{Buffer, CommandBuffer, ComputeEncoder};
use super::functions::{BitNetShaderFunction, each_function};
use super::shaders::BitNetShaders;
use grilly::Result;

/// What a function takes for a buffer, and how the encoder does.
macro_rules! argument {
    (?) => { Option<&Buffer> };
    ($(!)?) => { &Buffer };
}
macro_rules! bound {
    ($buffer:ident ?) => {
        $buffer
    };
    ($buffer:ident $(!)?) => {
        Some($buffer)
    };
}

macro_rules! by_name {
    ($(
        $(#[$doc:meta])* $variant:ident $name:literal $shader:literal
        ($(($buffer:ident $($mark:tt)?))*) [$($number:ident = $default:literal),*] $create:ident $($dispatch:ident)?;
    )*) => {
        $(
            #[doc = concat!("An encoder with the pipeline of [`BitNetShaderFunction::", stringify!($variant), "`].")]
            ///
            /// # Errors
            /// As [`BitNetShaders::get_pipeline`].
            pub fn $create(shaders: &BitNetShaders, command_buffer: &CommandBuffer) -> Result<ComputeEncoder> {
                shaders.create_compute_encoder_with_pipeline(command_buffer, BitNetShaderFunction::$variant)
            }
            by_name!(@dispatch $($dispatch)? $variant ($(($buffer $($mark)?))*) [$($number),*]);
        )*
    };
    (@dispatch $variant:ident $buffers:tt $numbers:tt) => {};
    (@dispatch $dispatch:ident $variant:ident ($(($buffer:ident $($mark:tt)?))*) [$($number:ident),*]) => {
        #[doc = concat!(
            "Adds a command of [`BitNetShaderFunction::", stringify!($variant),
            "`] with its buffers and numbers; the numbers stay set."
        )]
        #[allow(clippy::too_many_arguments)] // the table's
        pub fn $dispatch(
            encoder: &ComputeEncoder,
            $($buffer: argument!($($mark)?),)*
            $($number: f64,)*
            threads: [u32; 3],
            threadgroup: [u32; 3],
        ) {
            let buffers: &[Option<&Buffer>] = &[$(bound!($buffer $($mark)?)),*];
            for (index, buffer) in buffers.iter().enumerate() {
                encoder.set_buffer(index, *buffer, 0);
            }
            $(encoder.set_number(stringify!($number), $number);)*
            encoder.dispatch_threads(threads, threadgroup);
        }
    };
}

each_function!(by_name);

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
