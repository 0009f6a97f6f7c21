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

/// Macros by name, with their values.
///
/// ```
/// use grilly::compiler::Defines;
/// assert_eq!(Defines::from([("ROWS", "4")]).0["ROWS"], "4");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Defines(pub BTreeMap<String, String>);

impl<const N: usize> From<[(&str, &str); N]> for Defines {
    fn from(macros: [(&str, &str); N]) -> Self {
        Defines(macros.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

/// What the code of a module depends on besides its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileOptions {
    /// The Vulkan version; default 1.3.
    pub target_env: TargetEnv,
    /// Whether the driver may contract `a * b + c` to one rounding, as by default; `false` decorates float arithmetic with
    /// NoContraction.
    pub fast_math: bool,
    /// Macros; default none.
    pub defines: Defines,
    /// Further folders, searched in this order for shaders that are not in the first; default none.
    pub fallback_directories: Vec<PathBuf>,
}

impl Default for CompileOptions {
    fn default() -> Self {
        let (target_env, defines, fallback_directories) = (TargetEnv::Vulkan1_3, Defines::default(), Vec::new());
        CompileOptions { target_env, fast_math: true, defines, fallback_directories }
    }
}

/// Settings for compiling users' shaders.
///
/// ```
/// use grilly::compiler::{OptimizationLevel, ShaderCompilerConfig};
/// let config = ShaderCompilerConfig { shader_directory: "my/shaders".into(), ..ShaderCompilerConfig::release() };
/// assert!(config.compile_options.fast_math && config.optimization_level == OptimizationLevel::Full);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShaderCompilerConfig {
    /// Folder of the shaders, searched at any depth.
    pub shader_directory: PathBuf,
    /// Whether compiled modules are cached on disk.
    pub enable_caching: bool,
    /// Folder of the cache; `None` for `grilly/shaders` in the user's cache folder.
    pub cache_directory: Option<PathBuf>,
    /// Whether modules contain names and lines for the validation layer and debuggers.
    pub debug_info: bool,
    /// The level of optimisation.
    pub optimization_level: OptimizationLevel,
    /// Target, arithmetic, macros and further folders.
    pub compile_options: CompileOptions,
}

impl ShaderCompilerConfig {
    /// Optimised, without debug information.
    pub fn release() -> Self {
        ShaderCompilerConfig {
            shader_directory: PathBuf::from("."),
            enable_caching: true,
            cache_directory: None,
            debug_info: false,
            optimization_level: OptimizationLevel::Full,
            compile_options: CompileOptions::default(),
        }
    }

    /// Unoptimised, with names and lines.
    pub fn debug() -> Self {
        ShaderCompilerConfig { debug_info: true, optimization_level: OptimizationLevel::None, ..Self::release() }
    }
}

impl Default for ShaderCompilerConfig {
    /// [`ShaderCompilerConfig::debug`] if the process is in debug mode, else [`ShaderCompilerConfig::release`].
    fn default() -> Self {
        if Settings::from_env().is_ok_and(|settings| settings.debug) { Self::debug() } else { Self::release() }
    }
}
