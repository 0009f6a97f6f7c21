//! MSL and HLSL, by SPIRV-Cross.

use spirv_cross2::compile::{hlsl, msl};
use spirv_cross2::spirv::{Decoration, ExecutionModel};
use spirv_cross2::{Compiler, Module, SpirvCrossError, targets};

/// MSL whose buffers have the numbers of their bindings; the parameters' number is `bindings`. With `matrices` it may have
/// bfloat16, of a later version.
///
/// # Errors
/// What SPIRV-Cross does not support.
pub(super) fn msl(words: &[u32], bindings: u32, matrices: bool) -> Result<String, String> {
    let translate = || -> Result<String, SpirvCrossError> {
        let mut compiler = Compiler::<targets::Msl>::new(Module::from_words(words))?;
        for buffer in 0..=bindings {
            // Otherwise they are numbered in the order of their first use.
            let target = msl::BindTarget { buffer, texture: 0, sampler: 0, count: None };
            let binding = msl::ResourceBinding::from_qualified(0, buffer);
            compiler.add_resource_binding(ExecutionModel::GLCompute, binding, &target)?;
        }
        let mut options = msl::CompilerOptions::default();
        options.version = if matrices { (3, 1) } else { (2, 1) }.into();
        options.force_native_arrays = true;
        // The fast forms may take NaN and infinity for absent.
        Ok(compiler.compile(&options)?.to_string().replace("fast::", "precise::"))
    };
    translate().map_err(|error| error.to_string())
}

/// HLSL whose registers have the numbers of their bindings: `t` what is only read, `u` other buffers, `b` the parameters
/// and, one further, the number of workgroups, where it is read.
///
/// # Errors
/// What SPIRV-Cross does not support.
pub(super) fn hlsl(words: &[u32], bindings: u32) -> Result<String, String> {
    let translate = || -> Result<String, SpirvCrossError> {
        let mut compiler = Compiler::<targets::Hlsl>::new(Module::from_words(words))?;
        if let Some(groups) = compiler.remap_num_workgroups_builtin() {
            compiler.set_decoration(groups, Decoration::DescriptorSet, Some(0u32))?;
            compiler.set_decoration(groups, Decoration::Binding, Some(bindings + 1))?;
        }
        let mut options = hlsl::CompilerOptions::default();
        options.shader_model = hlsl::HlslShaderModel::ShaderModel6_0;
        // A demand in HLSL, which loops over rows of any length cannot meet; in SPIR-V it is a hint.
        Ok(compiler.compile(&options)?.to_string().replace("[unroll]", ""))
    };
    translate().map_err(|error| error.to_string())
}
