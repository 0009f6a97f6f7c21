//! How users' shaders are compiled.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::backend::vulkan::spirv_tools::Aim;
use crate::settings::Settings;
use crate::{Error, Result};

/// What the optimiser does before the driver sees the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OptimizationLevel {
    /// Nothing.
    None,
    /// Makes it small.
    Size,
    /// Makes it fast.
    Full,
}

impl OptimizationLevel {
    pub(super) fn aim(self) -> Aim {
        match self {
            OptimizationLevel::None => Aim::None,
            OptimizationLevel::Size => Aim::Size,
            OptimizationLevel::Full => Aim::Speed,
        }
    }
}

impl std::str::FromStr for OptimizationLevel {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "none" => Ok(OptimizationLevel::None),
            "size" => Ok(OptimizationLevel::Size),
            "full" => Ok(OptimizationLevel::Full),
            _ => Err(Error::InvalidArgument(format!(
                "optimization_level is {name:?}, expected \"none\", \"size\" or \"full\""
            ))),
        }
    }
}

/// The Vulkan version whose rules a shader is compiled by; each has its newest SPIR-V.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TargetEnv {
    /// SPIR-V 1.3.
    Vulkan1_1,
    /// SPIR-V 1.5.
    Vulkan1_2,
    /// SPIR-V 1.6.
    Vulkan1_3,
}

impl TargetEnv {
    pub(super) fn versions(self) -> (shaderc::EnvVersion, shaderc::SpirvVersion) {
        match self {
            TargetEnv::Vulkan1_1 => (shaderc::EnvVersion::Vulkan1_1, shaderc::SpirvVersion::V1_3),
            TargetEnv::Vulkan1_2 => (shaderc::EnvVersion::Vulkan1_2, shaderc::SpirvVersion::V1_5),
            TargetEnv::Vulkan1_3 => (shaderc::EnvVersion::Vulkan1_3, shaderc::SpirvVersion::V1_6),
        }
    }
}

impl std::str::FromStr for TargetEnv {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "vulkan1.1" => Ok(TargetEnv::Vulkan1_1),
            "vulkan1.2" => Ok(TargetEnv::Vulkan1_2),
            "vulkan1.3" => Ok(TargetEnv::Vulkan1_3),
            _ => Err(Error::InvalidArgument(format!(
                "target_env is {name:?}, expected \"vulkan1.1\", \"vulkan1.2\" or \"vulkan1.3\""
            ))),
        }
    }
}

/// How users' shaders are compiled.
///
/// ```
/// use grilly::compiler::{CompilerConfig, OptimizationLevel};
/// let config = CompilerConfig { shader_directory: "my/shaders".into(), ..CompilerConfig::release() };
/// assert!(config.fast_math && config.optimization_level == OptimizationLevel::Full);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilerConfig {
    /// Where shaders lie, in folders of any depth.
    pub shader_directory: PathBuf,
    /// Where else, in this order, a shader is looked for that does not lie there.
    pub fallback_directories: Vec<PathBuf>,
    /// Whether compiled modules are kept on disk.
    pub enable_caching: bool,
    /// Where they are kept; `None` for `grilly/shaders` in the user's cache folder.
    pub cache_directory: Option<PathBuf>,
    /// Whether modules keep names and lines for the validation layer and debuggers.
    pub debug_info: bool,
    /// What the optimiser does.
    pub optimization_level: OptimizationLevel,
    /// Vulkan's version.
    pub target_env: TargetEnv,
    /// Whether the driver may contract `a * b + c` to one rounding; `false` decorates float arithmetic NoContraction.
    pub fast_math: bool,
    /// Macros, name and value.
    pub defines: BTreeMap<String, String>,
}

impl CompilerConfig {
    /// Optimised, with the least information.
    pub fn release() -> Self {
        CompilerConfig {
            shader_directory: PathBuf::from("."),
            fallback_directories: Vec::new(),
            enable_caching: true,
            cache_directory: None,
            debug_info: false,
            optimization_level: OptimizationLevel::Full,
            target_env: TargetEnv::Vulkan1_3,
            fast_math: true,
            defines: BTreeMap::new(),
        }
    }

    /// Not optimised, with names and lines.
    pub fn debug() -> Self {
        CompilerConfig { debug_info: true, optimization_level: OptimizationLevel::None, ..Self::release() }
    }
}

impl Default for CompilerConfig {
    /// As the process' mode is: [`CompilerConfig::debug`] in debug mode, else [`CompilerConfig::release`].
    fn default() -> Self {
        if Settings::from_env().is_ok_and(|settings| settings.debug) { Self::debug() } else { Self::release() }
    }
}
