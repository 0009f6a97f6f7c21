//! Pipelines of the functions on a device, and the compiler of users' own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::command::{CommandBuffer, CommandQueue, ComputeEncoder, Device};
use super::functions::{BitNetShaderFunction, Row};
use grilly::backend::vulkan::{self, Capabilities, OpenDevice, ShaderModule, builtin};
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
    Own(&'static Row),
    /// A function of a user's shader, compiled for the device.
    Users(Box<ComputeFunction>, Arc<vulkan::ComputePipeline>),
}

impl ComputePipeline {
    pub(super) fn of_users(function: ComputeFunction, device: &OpenDevice) -> Result<Self> {
        let pipeline = device.pipeline(function.variant, &function.constants(&[])?)?;
        let (threadgroup, width) = (pipeline.variant.local_size, device.capabilities().subgroup_size);
        Ok(ComputePipeline { runs: Runs::Users(Box::new(function), pipeline), threadgroup, width })
    }

    /// The function's name.
    pub fn name(&self) -> &'static str {
        match &self.runs {
            Runs::Own(row) => row.name,
            Runs::Users(_, pipeline) => pipeline.variant.name,
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

/// The functions on a device, and those of users' shaders.
#[derive(Clone)]
pub struct BitNetShaders {
    device: Device,
    users: Arc<Users>,
}

/// Functions of users' shaders, compiled when they are first asked for.
struct Users {
    compiler: ShaderCompiler,
    compiled: Mutex<HashMap<BitNetShaderFunction, ComputeFunction>>,
}

impl BitNetShaders {
    /// The functions on a device; users' shaders are in the folder `shaders` of the current folder.
    ///
    /// # Errors
    /// `DeviceLost` for one that is.
    pub fn new(device: Device) -> Result<Self> {
        BitNetShaders::with_compiler(device, ShaderCompiler::new(default_config()))
    }

    /// The functions on a device, and users' shaders by a compiler of their folder.
    ///
    /// # Errors
    /// `DeviceLost` for one that is.
    ///
    /// ```
    /// use grilly_bitnet::*;
    /// use grilly::dtype::DType;
    ///
    /// // A folder with a shader
    /// let folder = std::env::temp_dir().join(format!("twice-{}", std::process::id()));
    /// std::fs::create_dir_all(&folder).unwrap();
    /// let text = "#version 460\nlayout(local_size_x = 64) in;\n\
    ///             layout(std430, binding = 0) readonly buffer X { float x[]; };\n\
    ///             layout(std430, binding = 1) writeonly buffer Y { float y[]; };\n\
    ///             layout(push_constant) uniform Push { float factor; } push;\n\
    ///             void main() {\n    uint i = gl_GlobalInvocationID.x;\n\
    ///                 if (i < x.length()) { y[i] = push.factor * x[i]; }\n}\n";
    /// std::fs::write(folder.join("scaled.glsl"), text).unwrap();
    /// let device = create_vulkan_device().unwrap();
    /// let config = ShaderCompilerConfig { shader_directory: folder, enable_caching: false, ..ShaderCompilerConfig::release() };
    /// let shaders = BitNetShaders::with_compiler(device.clone(), ShaderCompiler::new(config)).unwrap();
    /// if device.engine().capabilities().is_none() {
    ///     return; // the CPU runs no shaders
    /// }
    ///
    /// // Its function, used as one of grilly's
    /// let scaled = BitNetShaderFunction::User { shader: "scaled", function: "main" };
    /// let x = device.new_buffer_with_data(DType::F32, &[2], bytemuck::cast_slice(&[1.5f32, -2.0])).unwrap();
    /// let y = device.new_buffer(DType::F32, &[2]).unwrap();
    /// let commands = device.new_command_queue().new_command_buffer();
    /// let encoder = shaders.create_compute_encoder_with_pipeline(&commands, scaled).unwrap();
    /// encoder.set_buffer(0, Some(&x), 0);
    /// encoder.set_buffer(1, Some(&y), 0);
    /// encoder.set_number("factor", 2.0);
    /// let (threads, threadgroup) = shaders.calculate_dispatch_params(scaled, 2).unwrap();
    /// dispatch_compute(&encoder, threads, threadgroup);
    /// encoder.end_encoding();
    /// commands.commit();
    /// commands.wait_until_completed().unwrap();
    /// assert_eq!(y.read().unwrap(), bytemuck::cast_slice::<f32, u8>(&[3.0, -4.0]));
    /// ```
    pub fn with_compiler(device: Device, compiler: ShaderCompiler) -> Result<Self> {
        device.engine().synchronize()?;
        Ok(BitNetShaders { device, users: Arc::new(Users { compiler, compiled: Mutex::default() }) })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The pipeline of a function; the device compiles its shaders when they are first dispatched.
    ///
    /// # Errors
    /// `PipelineCreationFailed` naming what the device lacks; for a user's function also as
    /// [`ShaderCompiler::get_compute_function`].
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
        let row = match (function, function.row()) {
            (BitNetShaderFunction::User { shader, function: name }, _) => {
                let compiled = self.users.compiled(function, shader, name)?;
                return self.device.new_compute_pipeline_state_with_function(&compiled);
            }
            (_, Some(row)) => row,
            (_, None) => return Err(Error::InvalidArgument(format!("{function:?} is in no table"))),
        };
        let runs = Runs::Own(row);
        let Some(capabilities) = self.device.engine().capabilities() else {
            return Ok(ComputePipeline { runs, threadgroup: [1; 3], width: 1 });
        };
        let own = own_shader(row.shader, capabilities).map_err(|reason| Error::PipelineCreationFailed {
            shader: row.name.into(),
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

impl Users {
    fn compiled(&self, function: BitNetShaderFunction, shader: &str, name: &str) -> Result<ComputeFunction> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = compiled.get(&function) {
            return Ok(found.clone());
        }
        let made = self.compiler.get_compute_function(shader, name)?;
        compiled.insert(function, made.clone());
        Ok(made)
    }
}

fn default_config() -> ShaderCompilerConfig {
    ShaderCompilerConfig { shader_directory: "shaders".into(), ..ShaderCompilerConfig::default() }
}

fn own_shader(name: &str, capabilities: &Capabilities) -> Result<&'static ShaderModule, String> {
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
    let compiler = ShaderCompiler::new(default_config());
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
