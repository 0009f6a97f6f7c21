//! Compiles a variant of a shader to SPIR-V 1.6 for Vulkan 1.3.

use std::path::Path;

use super::glsl::Request;
use super::manifest::{Kernel, Variant};

/// One variant, compiled twice.
pub struct Module {
    /// The module that the device runs.
    pub optimised: Vec<u32>,
    /// Unoptimised, with every binding, push constant and specialization constant under its name, used or not.
    pub named: Vec<u32>,
}

/// Compiles one variant; the error contains the compiler's messages as `file:line: error: what`.
pub fn compile(kernel: &Kernel, variant: &Variant, shaders: &Path) -> Result<Module, String> {
    let file = kernel.file.display().to_string();
    let text = std::fs::read_to_string(&kernel.file).map_err(|e| format!("{file}: error: {e}"))?;
    let run = |named| {
        let request = Request {
            text: &text,
            file: &file,
            defines: &variant.defines,
            target: (shaderc::EnvVersion::Vulkan1_3, shaderc::SpirvVersion::V1_6),
            named,
            strict: true,
        };
        request.compile(|requested, from, _| include(shaders, requested, from)).map(|(words, _)| words)
    };
    Ok(Module { optimised: run(false)?, named: run(true)? })
}

fn include(shaders: &Path, requested: &str, from: &str) -> Result<(String, String), String> {
    let path = shaders.join("include").join(requested);
    let content = std::fs::read_to_string(&path).map_err(|e| format!("{from}: cannot read {}: {e}", path.display()))?;
    Ok((path.display().to_string(), content))
}
