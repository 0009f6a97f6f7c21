//! Settings for compiling users' shaders.

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use crate::backend::vulkan::spirv_tools::OptimizationLevel;
use crate::error::named;
use crate::settings::Settings;
use crate::{Error, Result};

impl std::str::FromStr for OptimizationLevel {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        use OptimizationLevel::{Full, None, Size};
        named("optimization_level", name, [("none", None), ("size", Size), ("full", Full)])
    }
}

/// The Vulkan version for which a shader is compiled, with the newest SPIR-V that it supports.
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
        use TargetEnv::{Vulkan1_1, Vulkan1_2, Vulkan1_3};
        named("target_env", name, [("vulkan1.1", Vulkan1_1), ("vulkan1.2", Vulkan1_2), ("vulkan1.3", Vulkan1_3)])
    }
}

/// Settings for compiling users' shaders.
///
/// ```
/// use grilly::compiler::{CompilerConfig, OptimizationLevel};
/// let config = CompilerConfig { shader_directory: "my/shaders".into(), ..CompilerConfig::release() };
/// assert!(config.fast_math && config.optimization_level == OptimizationLevel::Full);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilerConfig {
    /// Folder of the shaders, searched at any depth.
    pub shader_directory: PathBuf,
    /// Further folders, searched in this order for shaders that are not in the first.
    pub fallback_directories: Vec<PathBuf>,
    /// Whether compiled modules are cached on disk.
    pub enable_caching: bool,
    /// Folder of the cache; `None` for `grilly/shaders` in the user's cache folder.
    pub cache_directory: Option<PathBuf>,
    /// Whether modules contain names and lines for the validation layer and debuggers.
    pub debug_info: bool,
    /// The level of optimisation.
    pub optimization_level: OptimizationLevel,
    /// The Vulkan version.
    pub target_env: TargetEnv,
    /// Whether the driver may contract `a * b + c` to one rounding; `false` decorates float arithmetic with
    /// NoContraction.
    pub fast_math: bool,
    /// Macros by name, with their values.
    pub defines: BTreeMap<String, String>,
}

impl CompilerConfig {
    /// Optimised, without debug information.
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

    /// Unoptimised, with names and lines.
    pub fn debug() -> Self {
        CompilerConfig { debug_info: true, optimization_level: OptimizationLevel::None, ..Self::release() }
    }
}

impl Default for CompilerConfig {
    /// [`CompilerConfig::debug`] if the process is in debug mode, else [`CompilerConfig::release`].
    fn default() -> Self {
        if Settings::from_env().is_ok_and(|settings| settings.debug) { Self::debug() } else { Self::release() }
    }
}
