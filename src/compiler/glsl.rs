//! GLSL to SPIR-V through shaderc; the build script and the run-time compiler share it.

use std::collections::BTreeMap;

/// One compilation.
pub struct Request<'a> {
    /// The GLSL.
    pub text: &'a str,
    /// Its name in messages.
    pub file: &'a str,
    /// Macros.
    pub defines: &'a BTreeMap<String, String>,
    /// Vulkan's version and the newest SPIR-V it takes.
    pub target: (shaderc::EnvVersion, shaderc::SpirvVersion),
    /// With names and lines, and nothing optimised away; optimised otherwise.
    pub named: bool,
    /// Whether a warning is an error.
    pub strict: bool,
}

/// An included file: its name in messages and its text. Asked for by its name, that of the file which asks, and how deep
/// that one is.
pub type Included = Result<(String, String), String>;

impl Request<'_> {
    /// The module, and what the compiler warned of.
    ///
    /// # Errors
    /// What the compiler says, lines as `file:line: error: what`.
    pub fn compile(&self, include: impl Fn(&str, &str, usize) -> Included) -> Result<(Vec<u32>, String), String> {
        let compiler = self.compiler()?;
        let options = self.options(include)?;
        let kind = shaderc::ShaderKind::Compute;
        let made = compiler.compile_into_spirv(self.text, kind, self.file, "main", Some(&options));
        made.map(|m| (m.as_binary().to_vec(), m.get_warning_messages())).map_err(|e| self.fault(e))
    }

    /// The text with includes and macros in place and without comments.
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
            return Err(format!("{}: error: the file holds a zero byte, so it is no text", self.file));
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
