//! Pipelines of the functions on a device, and the compiler of users' own.

use std::sync::OnceLock;

use super::command::{CommandBuffer, CommandQueue, ComputeEncoder, Device};
use super::functions::BitNetShaderFunction;
use grilly::backend::vulkan::{Capabilities, Variant, builtin};
use grilly::compiler::{ComputeFunction, ShaderCompiler, ShaderCompilerConfig};
use grilly::dtype::DType;
use grilly::{Error, Result};

/// What a command runs.
#[derive(Debug, Clone)]
pub struct ComputePipeline {
    pub(super) runs: Runs,
    threadgroup: [u32; 3],
    width: u32,
}

#[derive(Debug, Clone)]
pub(super) enum Runs {
    /// A function of the table.
    Own(BitNetShaderFunction),
    /// A function of a user's shader.
    Users(Box<ComputeFunction>),
}

impl ComputePipeline {
    pub(super) fn of_users(function: ComputeFunction, capabilities: &Capabilities) -> Self {
        let (threadgroup, width) = (function.variant.local_size, capabilities.subgroup_size);
        ComputePipeline { runs: Runs::Users(Box::new(function)), threadgroup, width }
    }

    /// The function's name.
    pub fn name(&self) -> &'static str {
        match &self.runs {
            Runs::Own(function) => function.name(),
            Runs::Users(function) => function.variant.name,
        }
    }

    /// Threads of a group along each axis; one on the CPU.
    pub fn threadgroup(&self) -> [u32; 3] {
        self.threadgroup
    }

    /// Threads that the device runs as one; of grilly's own functions a divisor of those of a group.
    pub fn thread_execution_width(&self) -> u32 {
        self.width
    }
}

/// The functions on a device.
#[derive(Clone)]
pub struct BitNetShaders {
    device: Device,
}

impl BitNetShaders {
    /// The functions on a device.
    ///
    /// # Errors
    /// `DeviceLost` for one that is.
    pub fn new(device: Device) -> Result<Self> {
        device.engine().synchronize()?;
        Ok(BitNetShaders { device })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The pipeline of a function; the device compiles its shaders when they are first dispatched.
    ///
    /// # Errors
    /// `PipelineCreationFailed` naming what the device lacks.
    ///
    /// ```test_harness
    /// use grilly_bitnet::*;
    ///
    /// #[test]
    /// fn test_new_shader() {
    ///     let device = create_vulkan_device().unwrap();
    ///     let shaders = BitNetShaders::new(device).unwrap();
    ///     let pipeline = shaders.get_pipeline(BitNetShaderFunction::BitLinearForward).unwrap();
    ///     // Test pipeline...
    /// }
    /// ```
    pub fn get_pipeline(&self, function: BitNetShaderFunction) -> Result<ComputePipeline> {
        let runs = Runs::Own(function);
        let Some(capabilities) = self.device.engine().capabilities() else {
            return Ok(ComputePipeline { runs, threadgroup: [1; 3], width: 1 });
        };
        let own = own_shader(function.row().shader, capabilities).map_err(|reason| Error::PipelineCreationFailed {
            shader: function.name().into(),
            reason,
            remedy: "choose another device, or \"cpu\"".into(),
        })?;
        Ok(ComputePipeline { runs, threadgroup: own.local_size, width: capabilities.subgroup_size })
    }

    /// An encoder with the pipeline of a function.
    ///
    /// # Errors
    /// As [`BitNetShaders::get_pipeline`].
    pub fn create_compute_encoder_with_pipeline(
        &self,
        command_buffer: &CommandBuffer,
        function: BitNetShaderFunction,
    ) -> Result<ComputeEncoder> {
        let encoder = command_buffer.new_compute_command_encoder();
        encoder.set_compute_pipeline_state(&self.get_pipeline(function)?);
        Ok(encoder)
    }

    /// Threads of a dispatch for a result of so many elements, and those of a group on this device.
    ///
    /// # Errors
    /// `InvalidArgument` for 2^32 elements and more, else as [`BitNetShaders::get_pipeline`].
    pub fn calculate_dispatch_params(
        &self,
        function: BitNetShaderFunction,
        data_size: usize,
    ) -> Result<([u32; 3], [u32; 3])> {
        let threads = u32::try_from(data_size).map_err(|_| {
            Error::InvalidArgument(format!("{}: {data_size} elements, expected below 2^32", function.name()))
        })?;
        Ok(([threads, 1, 1], self.get_pipeline(function)?.threadgroup()))
    }
}

fn own_shader(name: &str, capabilities: &Capabilities) -> Result<&'static Variant, String> {
    let kernel = builtin(name).ok_or_else(|| format!("there is no shader {name:?}"))?;
    kernel.own(DType::F32, capabilities).map_err(|error| error.to_string())
}

/// The device `"vulkan"`; the CPU where there is none, with a warning.
///
/// # Errors
/// As [`Device::of`].
pub fn create_vulkan_device() -> Result<Device> {
    Device::of("vulkan")
}

/// The device of [`create_vulkan_device`], a queue of its commands, and its functions.
///
/// # Errors
/// As [`Device::of`].
pub fn initialize_vulkan_context() -> Result<(Device, CommandQueue, BitNetShaders)> {
    let device = create_vulkan_device()?;
    Ok((device.clone(), device.new_command_queue(), BitNetShaders::new(device)?))
}

/// A compiler of the folder `shaders` of the current folder, for this device: [`ShaderCompiler::new`] has all settings.
///
/// # Errors
/// `ShaderFolder` where there is no such folder; `DeviceUnavailable` for a lost device.
pub fn create_shader_compiler(device: &Device) -> Result<ShaderCompiler> {
    device.engine().synchronize()?;
    let compiler = ShaderCompiler::new(ShaderCompilerConfig {
        shader_directory: "shaders".into(),
        ..ShaderCompilerConfig::default()
    });
    compiler.shaders()?;
    Ok(compiler)
}

static GLOBAL: OnceLock<BitNetShaders> = OnceLock::new();

/// Makes the functions on a device those of the process, which [`global_shaders`] returns.
///
/// # Errors
/// As [`BitNetShaders::new`], and `InvalidArgument` where they are on another device already.
pub fn initialize_global_shaders(device: Device) -> Result<()> {
    let made = BitNetShaders::new(device)?;
    let (held, own) = (GLOBAL.get_or_init(|| made.clone()).device.engine(), made.device.engine());
    if std::sync::Arc::ptr_eq(held, own) {
        return Ok(());
    }
    let (held, own) = (held.device(), own.device());
    Err(Error::InvalidArgument(format!("the global shaders are on {held:?} already and not on {own:?}")))
}

/// Those of [`initialize_global_shaders`].
///
/// # Errors
/// `InvalidArgument` before they are initialised.
pub fn global_shaders() -> Result<&'static BitNetShaders> {
    let missing = || Error::InvalidArgument("there are no global shaders; call initialize_global_shaders first".into());
    GLOBAL.get().ok_or_else(missing)
}
