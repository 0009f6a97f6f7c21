//! Users' shaders at run time: GLSL to SPIR-V, a cache on disk, and registration in place of grilly's own shaders.
//!
//! ```text
//! file.glsl ── functions.rs ─▶ builds ── include.rs, glsl.rs ─▶ SPIR-V ── module.rs, spirv_tools ─▶ cache.rs
//!                                                                              │
//! file.spv ──────────────────────────────────────────────────────────────────────┤
//!                        places.rs: all buffers in set 0 ── validated, reflected ─┴ variant.rs ─▶ &'static Variant
//!                                                            check.rs, register.rs ─▶ model::shaders
//!                                                            function.rs, block.rs ─▶ array::Dispatch
//! ```

mod block;
mod cache;
mod check;
mod config;
mod folder;
mod function;
mod functions;
pub(crate) mod glsl;
mod include;
mod matrices;
mod module;
mod places;
mod register;
#[cfg(test)]
mod tests;
mod text;
mod variant;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use block::{Axis, Block, Member, Number};
pub use config::{CompileOptions, Defines, OptimizationLevel, ShaderCompilerConfig, TargetEnv};
pub use function::{BufferName, ComputeFunction};
pub use include::files;
pub use places::Place;
pub use register::{enter, register, row};

use crate::backend::vulkan::spirv_tools;
use crate::{Error, Result};
use cache::Compiled;
use functions::MAIN;

/// Compiles the shaders of a folder.
///
/// ```
/// use grilly::compiler::{ShaderCompilerConfig, ShaderCompiler};
/// let folder = std::env::temp_dir().join(format!("grilly-doc-{}", std::process::id()));
/// std::fs::create_dir_all(&folder).unwrap();
/// let text = "#version 460\nlayout(local_size_x = 64) in;\n\
///             layout(std430, binding = 0) buffer X { float x[]; };\n\
///             void main() { x[gl_GlobalInvocationID.x] *= 2.0; }\n";
/// std::fs::write(folder.join("twice.glsl"), text).unwrap();
/// let config = ShaderCompilerConfig { shader_directory: folder, enable_caching: false, ..ShaderCompilerConfig::release() };
/// let function = ShaderCompiler::new(config).get_compute_function("twice", "main").unwrap();
/// assert_eq!(function.variant.bindings[0].name, "x");
/// assert_eq!(function.variant.local_size, [64, 1, 1]);
/// ```
#[derive(Debug)]
pub struct ShaderCompiler {
    config: ShaderCompilerConfig,
    compilations: AtomicU64,
}

impl ShaderCompiler {
    /// A compiler for the shaders of a folder; reads nothing yet.
    pub fn new(config: ShaderCompilerConfig) -> Self {
        ShaderCompiler { config, compilations: AtomicU64::new(0) }
    }

    /// Number of compilations of GLSL, excluding cache hits.
    pub fn compilations(&self) -> u64 {
        self.compilations.load(Relaxed)
    }

    /// The functions of a shader, in the order of its file.
    ///
    /// # Errors
    /// `ShaderNotFound`, or `CompilationFailed` for an invalid declaration of a function.
    pub fn functions(&self, shader: &str) -> Result<Vec<String>> {
        let path = self.find(shader)?;
        if is_spirv(&path) {
            return Ok(vec![MAIN.to_owned()]);
        }
        functions::declared(shader, &path.display().to_string(), &read(shader, &path)?)
    }

    /// Compiles one function of a shader; a file that declares none has the function `main`.
    ///
    /// # Errors
    /// `ShaderNotFound`, `FunctionNotFound`, `CompilationFailed` with file and line, or `PipelineCreationFailed` naming
    /// a capability that grilly never enables on a device.
    pub fn get_compute_function(&self, shader: &str, function: &str) -> Result<ComputeFunction> {
        let path = self.find(shader)?;
        let known = self.functions(shader)?;
        if !known.iter().any(|name| name == function) {
            let known = known.iter().map(|name| format!("{name:?}")).collect();
            return Err(Error::FunctionNotFound { shader: shader.to_owned(), function: function.to_owned(), known });
        }
        let compiled = if is_spirv(&path) {
            let words = spirv(shader, &path)?;
            Compiled { named: words.clone(), spirv: words }
        } else {
            self.compile(shader, &path, function)?
        };
        let fault = |what: String| self.failure(shader, format!("{}: error: {what}", path.display()));
        let shader = shader.strip_suffix(".glsl").or(shader.strip_suffix(".spv")).unwrap_or(shader);
        ComputeFunction::of([shader, function], [&compiled.named, &compiled.spirv], fault)
    }

    fn failure(&self, shader: &str, problem: String) -> Error {
        let folder = self.config.shader_directory.display();
        Error::CompilationFailed {
            shader: shader.to_owned(),
            problem,
            remedy: format!(
                "correct the lines named; files are included from beside the shader, from {folder}, from \
                 {folder}/include and from grilly's own"
            ),
        }
    }

    /// The file of a shader in the first folder that has it: GLSL, or SPIR-V if there is no GLSL or the extension is
    /// given.
    fn find(&self, shader: &str) -> Result<PathBuf> {
        let names = match Path::new(shader).extension().and_then(|e| e.to_str()) {
            Some("glsl" | "spv") => vec![shader.to_owned()],
            _ => ["glsl", "spv"].map(|ending| format!("{shader}.{ending}")).to_vec(),
        };
        let folders =
            std::iter::once(&self.config.shader_directory).chain(&self.config.compile_options.fallback_directories);
        let candidates: Vec<PathBuf> = folders.flat_map(|folder| names.iter().map(|name| folder.join(name))).collect();
        let tried = candidates.iter().map(|path| path.display().to_string()).collect();
        let found = candidates.into_iter().find(|path| path.is_file());
        found.ok_or(Error::ShaderNotFound { name: shader.to_owned(), tried })
    }

    fn compile(&self, shader: &str, path: &Path, function: &str) -> Result<Compiled> {
        let (text, options) = (read(shader, path)?, &self.config.compile_options);
        let file = path.display().to_string();
        let request = glsl::Request {
            text: &text,
            file: &file,
            defines: &functions::defines(&options.defines.0, function),
            target: options.target_env.versions(),
            named: true,
            strict: false,
        };
        let failed = |text| self.failure(shader, text);
        // The size of included files is not yet known.
        let most = text.len() + if text.contains("include") { text::LONGEST } else { 0 };
        let directory = &self.config.shader_directory;
        let preprocessed = text::on_deep_stack(most, || request.preprocess(include::resolver(directory)));
        let preprocessed = preprocessed.map_err(failed)?;
        if preprocessed.len() > text::LONGEST {
            let (length, most) = (preprocessed.len(), text::LONGEST);
            let long =
                format!("{file}: error: {length} bytes with includes and macros in place, at most {most} are compiled");
            return Err(failed(long));
        }
        let cached = cache::file(&self.config, &preprocessed);
        if let Some(compiled) = cached.as_deref().and_then(cache::read) {
            return Ok(compiled);
        }
        self.compilations.fetch_add(1, Relaxed);
        let most = most.max(preprocessed.len());
        let made = text::on_deep_stack(most, || request.compile(include::resolver(directory)));
        let (mut named, warnings) = made.map_err(failed)?;
        if !warnings.trim().is_empty() {
            log::warn!(target: "grilly", "{}", warnings.trim_end());
        }
        let fault = |what: String| self.failure(shader, format!("{file}: error: {what}"));
        if !options.fast_math {
            named = module::without_contraction(&named).map_err(fault)?;
        }
        spirv_tools::validate(&named).map_err(fault)?;
        let (level, info) = (self.config.optimization_level, self.config.debug_info);
        let spirv = spirv_tools::optimise(&named, level, info).map_err(fault)?;
        spirv_tools::validate(&spirv).map_err(fault)?;
        let compiled = Compiled { named, spirv };
        if let Some(file) = cached {
            cache::write(&file, &compiled);
        }
        Ok(compiled)
    }
}

/// Whether the file of a shader is a precompiled module.
fn is_spirv(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "spv")
}

fn read(shader: &str, path: &Path) -> Result<String> {
    text::read(path).map_err(|what| Error::CompilationFailed {
        shader: shader.to_owned(),
        problem: format!("{}: error: {what}", path.display()),
        remedy: "the file must be readable, short enough and hold UTF-8".into(),
    })
}

/// The words of a precompiled module, valid for Vulkan 1.3.
fn spirv(shader: &str, path: &Path) -> Result<Vec<u32>> {
    let fault = |what: String| Error::CompilationFailed {
        shader: shader.to_owned(),
        problem: format!("{}: error: {what}", path.display()),
        remedy: "make it anew: glslc --target-env=vulkan1.3 -fshader-stage=compute FILE.glsl -o FILE.spv".into(),
    };
    let bytes = std::fs::read(path).map_err(|cause| fault(cause.to_string()))?;
    if bytes.len() % 4 != 0 {
        return Err(fault(format!("{} bytes are no whole number of words", bytes.len())));
    }
    let words: Vec<u32> = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    spirv_tools::validate(&words).map_err(fault)?;
    Ok(words)
}
