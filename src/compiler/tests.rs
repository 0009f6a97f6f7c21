//! Tests of the compiler on temporary files, without a device.

mod compiling;
mod precompiled;
mod registering;

use std::path::Path;

use super::*;
use crate::backend::vulkan::{Capabilities, Variant, select};
use crate::model::shaders;

const HEAD: &str = "#version 460\n#extension GL_GOOGLE_include_directive : require\nlayout(local_size_x = 64) in;\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        files.iter().for_each(|(name, text)| folder.write(name, text.as_bytes()));
        folder
    }

    fn write(&self, name: &str, content: &[u8]) {
        let path = self.path().join("shaders").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn config(&self) -> ShaderCompilerConfig {
        ShaderCompilerConfig {
            shader_directory: self.path().join("shaders"),
            cache_directory: Some(self.path().join("cache")),
            ..ShaderCompilerConfig::release()
        }
    }

    fn compiler(&self) -> ShaderCompiler {
        ShaderCompiler::new(self.config())
    }

    fn cached(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.path().join("cache"));
        files.map(|files| files.map(|file| file.unwrap().path()).collect()).unwrap_or_default()
    }
}

/// y = f(x) elementwise.
fn elementwise(expression: &str) -> String {
    format!(
        "{HEAD}layout(std430, binding = 0) readonly buffer X {{ float x[]; }};\n\
         layout(std430, binding = 1) writeonly buffer Y {{ float y[]; }};\n\
         void main() {{\n    uint i = gl_GlobalInvocationID.x;\n    y[i] = {expression};\n}}\n"
    )
}

/// A shader for attention-output with its author's own declarations.
fn attention(bindings: &str, push: &str) -> String {
    format!(
        "{HEAD}{bindings}layout(push_constant) uniform Push {{ {push} }} push;\n\
         void main() {{ y[gl_GlobalInvocationID.x] = weights[0] * values[0] * float(push.batch); }}\n"
    )
}

const BINDINGS: &str = "layout(std430, binding = 0) readonly buffer W { float weights[]; };\n\
                        layout(std430, binding = 1) readonly buffer V { float values[]; };\n\
                        layout(std430, binding = 2) writeonly buffer Y { float y[]; };\n";
const PUSH: &str = "uint batch; uint heads; uint kv_heads; uint q_len; uint kv_len; uint head_dim;";

fn select_on_floor(shader: &str, architecture: &str) -> crate::Result<&'static Variant> {
    select(&shaders::read(), shader, architecture, &Capabilities::floor())
}
