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

    /// Compiles every function of these shaders; a fault in one keeps no other from being compiled and cached.
    ///
    /// # Errors
    /// Of one fault as [`ShaderCompiler::get_compute_function`], of several one `CompilationFailed` that names their shaders
    /// and has the message of each.
    pub fn compile_shaders(&self, shaders: &[String]) -> Result<Vec<ComputeFunction>> {
        self.joined(self.compile_each(shaders))
    }

    /// The functions of each of these shaders, or what is wrong with it.
    ///
    /// ```
    /// use grilly::compiler::{ShaderCompiler, ShaderCompilerConfig};
    /// let folder = std::env::temp_dir().join(format!("grilly-each-{}", std::process::id()));
    /// std::fs::create_dir_all(&folder).unwrap();
    /// let text = "#version 460\nlayout(local_size_x = 64) in;\nvoid main() {}\n";
    /// std::fs::write(folder.join("good.glsl"), text).unwrap();
    /// std::fs::write(folder.join("bad.glsl"), text.replace("{}", "{ x = 1; }")).unwrap();
    /// let config = ShaderCompilerConfig { shader_directory: folder, enable_caching: false, ..ShaderCompilerConfig::release() };
    /// let compiler = ShaderCompiler::new(config);
    /// let each = compiler.compile_each(&compiler.shaders().unwrap());
    /// assert!(each[0].0 == "bad" && each[0].1.is_err());
    /// assert_eq!((each[1].0.as_str(), each[1].1.as_ref().unwrap().len()), ("good", 1));
    /// ```
    pub fn compile_each(&self, shaders: &[String]) -> Vec<(String, Result<Vec<ComputeFunction>>)> {
        let of = |shader: &String| {
            let functions = self.functions(shader)?;
            let each = functions.iter().map(|function| {
                let made = self.get_compute_function(shader, function);
                (shader.clone(), made.map(|function| vec![function]))
            });
            self.joined(each.collect())
        };
        shaders.iter().map(|shader| (shader.clone(), of(shader))).collect()
    }

    /// All functions, or the faults as one error.
    fn joined(&self, each: Vec<(String, Result<Vec<ComputeFunction>>)>) -> Result<Vec<ComputeFunction>> {
        let (mut made, mut failed): (Vec<_>, Vec<(String, Error)>) = Default::default();
        for (shader, result) in each {
            match result {
                Ok(functions) => made.extend(functions),
                Err(error) => failed.push((shader, error)),
            }
        }
        if failed.len() < 2 {
            return failed.pop().map_or(Ok(made), |(_, error)| Err(error));
        }
        // Functions of one shader may have the same fault.
        let (mut shaders, mut problems): (Vec<String>, Vec<String>) = Default::default();
        for (shader, error) in failed {
            let problem = match error {
                Error::CompilationFailed { problem, .. } => problem,
                other => other.to_string(),
            };
            if !shaders.contains(&shader) {
                shaders.push(shader);
            }
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        Err(self.failure(&shaders.join(", "), problems.join("\n")))
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
