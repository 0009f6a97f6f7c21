//! Every shader as files, for other engines.

use std::path::Path;

use serde_json::json;

use crate::Result;
use crate::backend::vulkan::generated;
use crate::kernels::describe::{shader, value};
use crate::process::files::{self, Existing};

/// Writes the variants of all kernels to a folder, which is made if it is missing, and returns their number. Each is
///
/// - `NAME.glsl`: its source in GLSL 460, with includes and macros in place, so that it compiles alone;
/// - `NAME.spv`: the module that grilly runs, SPIR-V 1.6 for Vulkan 1.3 with the entry point `main`;
/// - `NAME.json`: its interface: `kernel`, `variant`, `stored` (type of activations and matrices), `needs` (features of
///   the device), `bindings` in set 0, `push_constants` of 4 bytes each, `constants` (specialization constants with their
///   defaults), and, with these, `local_size` and `shared_memory` in bytes.
///
/// # Errors
/// `InvalidArgument` naming a file that cannot be written.
///
/// ```
/// let folder = std::env::temp_dir().join(format!("grilly-export-{}", std::process::id()));
/// assert!(grilly::export::shaders(&folder).unwrap() > 100);
/// assert!(folder.join("softmax.spv").exists());
/// std::fs::remove_dir_all(folder).unwrap();
/// ```
pub fn shaders(folder: &Path) -> Result<usize> {
    let mut count = 0;
    for kernel in generated::ALL {
        for variant in kernel.variants {
            let (defaults, words) = (variant.defaults(), variant.words(&variant.defaults()));
            let shader = shader(variant, &defaults);
            let bindings = shader
                .bindings
                .iter()
                .map(|(index, name, access)| json!({"binding": index, "name": name, "access": access}));
            let push = shader.push_constants.iter().enumerate();
            let push = push.map(|(place, (name, kind))| json!({"offset": 4 * place, "name": name, "type": kind}));
            let constants = shader.constants.iter().map(
                |(id, name, kind, bits)| json!({"id": id, "name": name, "type": kind, "default": value(kind, *bits)}),
            );
            let interface = json!({
                "kernel": kernel.name,
                "variant": variant.name,
                "stored": variant.stored.name(),
                "needs": variant.needs.iter().map(|feature| feature.name()).collect::<Vec<_>>(),
                "bindings": bindings.collect::<Vec<_>>(),
                "push_constants": push.collect::<Vec<_>>(),
                "constants": constants.collect::<Vec<_>>(),
                "local_size": shader.local_size,
                "shared_memory": shader.shared_memory,
            });
            let interface = format!("{interface:#}\n");
            let files = [("glsl", shader.source.as_bytes()), ("spv", bytemuck::cast_slice(&words))];
            let files = files.into_iter().chain([("json", interface.as_bytes())]);
            let files: Vec<_> = files.map(|(end, content)| (format!("{}.{end}", variant.name), content)).collect();
            files::write(folder, &files, Existing::Replace)?;
            count += 1;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::compiler::{ShaderCompiler, ShaderCompilerConfig};

    #[test]
    fn the_source_compiles_to_the_interface_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let count = shaders(folder.path()).unwrap();
        assert_eq!(count, generated::ALL.iter().map(|kernel| kernel.variants.len()).sum::<usize>());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3 * count);
        let read = |name: &str, end: &str| fs::read(folder.path().join(format!("{name}.{end}"))).unwrap();
        // Of every tenth kernel the variant that needs nothing; all others are made likewise.
        for kernel in generated::ALL.iter().step_by(10) {
            let Some(variant) = kernel.variants.iter().find(|variant| variant.needs.is_empty()) else { continue };
            let name = variant.name;
            let config = ShaderCompilerConfig {
                shader_directory: folder.path().to_owned(),
                enable_caching: false,
                ..ShaderCompilerConfig::default()
            };
            let own = ShaderCompiler::new(config).get_compute_function(name, "main").unwrap();
            let interface: serde_json::Value = serde_json::from_slice(&read(name, "json")).unwrap();
            let names: Vec<_> = own.variant.bindings.iter().map(|binding| json!(binding.name)).collect();
            let described = interface["bindings"].as_array().unwrap();
            assert_eq!(names, described.iter().map(|binding| binding["name"].clone()).collect::<Vec<_>>(), "{name}");
            assert_eq!(interface["local_size"], json!(own.variant.local_size), "{name}");
            assert_eq!(interface["kernel"], kernel.name);
            assert_eq!(read(name, "spv"), bytemuck::cast_slice::<u32, u8>(&variant.spirv), "{name}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = shaders(&file.path().join("inside")).unwrap_err().to_string();
        assert!(error.contains("inside/") && error.contains("cannot be written"), "{error}");
    }
}
