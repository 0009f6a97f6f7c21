//! A folder of shaders: their names, and their compilation.

use std::path::Path;

use super::{ComputeFunction, ShaderCompiler, files};
use crate::{Error, Result};

impl ShaderCompiler {
    /// Names of the shaders in the folder and its subfolders (except `include`), sorted: paths without extensions, with
    /// parts joined by `/`. A file that has the name of one of grilly's own to include is none.
    ///
    /// # Errors
    /// `ShaderFolder` when it cannot be read.
    pub fn shaders(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        collect(&self.config.shader_directory, "", &mut names).map_err(|cause| Error::ShaderFolder {
            folder: self.config.shader_directory.clone(),
            cause: cause.to_string(),
        })?;
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Compiles every function of every shader in the folder.
    ///
    /// # Errors
    /// `ShaderFolder`, and as [`ShaderCompiler::compile_shaders`].
    pub fn compile_all_shaders(&self) -> Result<Vec<ComputeFunction>> {
        self.compile_shaders(&self.shaders()?)
    }

    /// Compiles every function of these shaders.
    ///
    /// # Errors
    /// One `CompilationFailed` with the faults of all shaders; else as [`ShaderCompiler::get_compute_function`].
    pub fn compile_shaders(&self, shaders: &[String]) -> Result<Vec<ComputeFunction>> {
        let (mut compiled, mut failed, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        for shader in shaders {
            let all = self.functions(shader).and_then(|functions| {
                functions.iter().map(|function| self.get_compute_function(shader, function)).collect::<Result<Vec<_>>>()
            });
            match all {
                Ok(functions) => compiled.extend(functions),
                Err(Error::CompilationFailed { shader, problem, .. }) => {
                    failed.push(shader);
                    problems.push(problem);
                }
                Err(other) => return Err(other),
            }
        }
        if failed.is_empty() {
            return Ok(compiled);
        }
        Err(self.failure(&failed.join(", "), problems.join("\n")))
    }
}

fn collect(folder: &Path, prefix: &str, names: &mut Vec<String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if path.is_dir() {
            if name != "include" {
                collect(&path, &format!("{prefix}{name}/"), names)?;
            }
        } else if let Some(stem) = name.strip_suffix(".glsl").or(name.strip_suffix(".spv"))
            && files().all(|(own, _)| own != name)
        {
            names.push(format!("{prefix}{stem}"));
        }
    }
    Ok(())
}
