//! BitNet's functions from Rust in the shape of command encoders: pipelines by name, buffers by index, commands that are
//! committed. A command is a call of the same ops that `grilly.quant` calls from Python, on any device.
//!
//! ```
//! use grilly_bitnet::{BitNetShaderFunction, BitNetShaders, Device, dispatch_compute};
//! use grilly::dtype::DType;
//! let device = Device::of("cpu").unwrap();
//! let shaders = BitNetShaders::new(device.clone()).unwrap();
//! let input = device.new_buffer_with_data(DType::F32, &[1, 2], bytemuck::cast_slice(&[0.5f32, -2.0])).unwrap();
//! let output = device.new_buffer(DType::F32, &[1, 2]).unwrap();
//! let commands = device.new_command_queue().new_command_buffer();
//! let function = BitNetShaderFunction::ReluForward;
//! let encoder = shaders.create_compute_encoder_with_pipeline(&commands, function).unwrap();
//! encoder.set_buffer(0, Some(&input), 0);
//! encoder.set_buffer(1, Some(&output), 0);
//! let (threads, threadgroup) = shaders.calculate_dispatch_params(function, 2).unwrap();
//! dispatch_compute(&encoder, threads, threadgroup);
//! encoder.end_encoding();
//! commands.commit();
//! commands.wait_until_completed().unwrap();
//! assert_eq!(output.read().unwrap(), bytemuck::cast_slice::<f32, u8>(&[0.5, 0.0]));
//! ```
#![deny(clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]
// Tests compare with functions of the standard library.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod by_name;
mod call;
mod command;
mod functions;
mod shaders;
#[cfg(test)]
mod tests;

pub use by_name::*;
pub use command::{Buffer, CommandBuffer, CommandQueue, ComputeEncoder, Device, dispatch_compute};
pub use functions::BitNetShaderFunction;
pub use grilly::compiler::{CompileOptions, OptimizationLevel, ShaderCompiler, ShaderCompilerConfig, TargetEnv};
pub use shaders::{
    BitNetShaders, ComputePipeline, create_shader_compiler, create_vulkan_device, global_shaders,
    initialize_global_shaders, initialize_vulkan_context,
};

/// A doctest that compiles and runs the Rust code of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guides/bitnet.md")]
mod guide {}
