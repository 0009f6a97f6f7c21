//! GLSL to SPIR-V 1.6 for Vulkan 1.3.

use std::path::Path;

use crate::manifest::{Kernel, Variant};

/// One variant, compiled twice.
pub struct Module {
    /// What the device runs.
    pub optimised: Vec<u32>,
    /// Unoptimised: every binding, push constant and specialization constant with its name, used or not.
    pub named: Vec<u32>,
}

/// Compiles one variant; the error lists what the compiler said as `file:line: error: what`.
pub fn compile(kernel: &Kernel, variant: &Variant, shaders: &Path) -> Result<Module, String> {
    let file = kernel.file.display().to_string();
    let source = std::fs::read_to_string(&kernel.file).map_err(|e| format!("{file}: error: {e}"))?;
    let compiler = shaderc::Compiler::new().map_err(|e| format!("{file}: error: no shader compiler: {e}"))?;
    let run = |level: shaderc::OptimizationLevel| {
        let mut options = shaderc::CompileOptions::new().map_err(|e| e.to_string())?;
        options.set_target_env(shaderc::TargetEnv::Vulkan, shaderc::EnvVersion::Vulkan1_3 as u32);
        options.set_target_spirv(shaderc::SpirvVersion::V1_6);
        options.set_warnings_as_errors();
        options.set_optimization_level(level);
        if level == shaderc::OptimizationLevel::Zero {
            options.set_generate_debug_info();
        }
        for (name, value) in &variant.defines {
            options.add_macro_definition(name, Some(value));
        }
        options.set_include_callback(|requested, _, from, _| include(shaders, requested, from));
        let kind = shaderc::ShaderKind::Compute;
        let binary = compiler.compile_into_spirv(&source, kind, &file, "main", Some(&options));
        binary.map(|b| b.as_binary().to_vec()).map_err(|e| match e {
            shaderc::Error::CompilationError(_, text) => text,
            other => format!("{file}: error: variant {}: {other}", variant.name),
        })
    };
    Ok(Module {
        optimised: run(shaderc::OptimizationLevel::Performance)?,
        named: run(shaderc::OptimizationLevel::Zero)?,
    })
}

fn include(shaders: &Path, requested: &str, from: &str) -> Result<shaderc::ResolvedInclude, String> {
    let path = shaders.join("include").join(requested);
    let content = std::fs::read_to_string(&path).map_err(|e| format!("{from}: cannot read {}: {e}", path.display()))?;
    Ok(shaderc::ResolvedInclude { resolved_name: path.display().to_string(), content })
}
