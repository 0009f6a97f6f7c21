//! GLSL to SPIR-V through shaderc, shared by the build script and the run-time compiler.

use std::collections::BTreeMap;

/// One compilation.
pub struct Request<'a> {
    /// The GLSL.
    pub text: &'a str,
    /// Its name in messages.
    pub file: &'a str,
    /// Macros.
    pub defines: &'a BTreeMap<String, String>,
    /// The Vulkan version and the newest SPIR-V version that it supports.
    pub target: (shaderc::EnvVersion, shaderc::SpirvVersion),
    /// Whether to keep names and lines and optimise nothing away; optimised otherwise.
    pub named: bool,
    /// Whether a warning is an error.
    pub strict: bool,
}

/// An included file: its name in messages and its text. The callback gets the requested name, the name of the including
/// file, and the include depth of that file.
pub type Included = Result<(String, String), String>;

impl Request<'_> {
    /// Compiles the text; returns the module and the compiler's warnings.
    ///
    /// # Errors
    /// The compiler's messages, lines as `file:line: error: what`.
    pub fn compile(&self, include: impl Fn(&str, &str, usize) -> Included) -> Result<(Vec<u32>, String), String> {
        let compiler = self.compiler()?;
        let options = self.options(include)?;
        let kind = shaderc::ShaderKind::Compute;
        let made = compiler.compile_into_spirv(self.text, kind, self.file, "main", Some(&options));
        made.map(|m| (m.as_binary().to_vec(), m.get_warning_messages())).map_err(|e| self.fault(e))
    }

    /// The preprocessed text: includes and macros expanded, comments removed.
    ///
    /// # Errors
    /// As [`Request::compile`].
    #[allow(dead_code)] // the build script has no cache
    pub fn preprocess(&self, include: impl Fn(&str, &str, usize) -> Included) -> Result<String, String> {
        let options = self.options(include)?;
        let made = self.compiler()?.preprocess(self.text, self.file, "main", Some(&options));
        made.map(|m| m.as_text()).map_err(|e| self.fault(e))
    }

    fn compiler(&self) -> Result<shaderc::Compiler, String> {
        if self.text.contains('\0') {
            return Err(format!("{}: error: the file contains a zero byte: it is not text", self.file));
        }
        shaderc::Compiler::new().map_err(|e| format!("{}: error: no shader compiler: {e}", self.file))
    }

    fn options<'o>(
        &self,
        include: impl Fn(&str, &str, usize) -> Included + 'o,
    ) -> Result<shaderc::CompileOptions<'o>, String> {
        let mut options = shaderc::CompileOptions::new().map_err(|e| e.to_string())?;
        options.set_target_env(shaderc::TargetEnv::Vulkan, self.target.0 as u32);
        options.set_target_spirv(self.target.1);
        if self.strict {
            options.set_warnings_as_errors();
        }
        if self.named {
            options.set_optimization_level(shaderc::OptimizationLevel::Zero);
            options.set_generate_debug_info();
        } else {
            options.set_optimization_level(shaderc::OptimizationLevel::Performance);
        }
        for (name, value) in self.defines {
            options.add_macro_definition(name, Some(value));
        }
        options.set_include_callback(move |requested, _, from, depth| {
            let found = include(requested, from, depth);
            found.map(|(resolved_name, content)| shaderc::ResolvedInclude { resolved_name, content })
        });
        Ok(options)
    }

    fn fault(&self, error: shaderc::Error) -> String {
        match error {
            shaderc::Error::CompilationError(_, text) => text.trim_end().to_owned(),
            other => format!("{}: error: {other}", self.file),
        }
    }
}
