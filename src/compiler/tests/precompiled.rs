//! SPIR-V files instead of GLSL.

use super::*;

#[test]
fn precompiled_modules_are_taken_with_and_without_names() {
    let folder = Folder::new(&[("source.glsl", &attention(BINDINGS, PUSH))]);
    let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let named = |config: ShaderCompilerConfig| {
        let config = ShaderCompilerConfig { enable_caching: false, ..config };
        ShaderCompiler::new(config).get_compute_function("source", "main").unwrap().variant.spirv
    };
    folder.write("stripped.spv", &bytes(&named(folder.config())));
    let debug =
        ShaderCompilerConfig { shader_directory: folder.config().shader_directory, ..ShaderCompilerConfig::debug() };
    folder.write("named.spv", &bytes(&named(debug)));
    // The default output of `glslc`: SPIR-V of Vulkan 1.0, where a storage buffer is a decorated uniform.
    let old = glsl::Request {
        text: &attention(BINDINGS, PUSH),
        file: "old",
        defines: &Default::default(),
        target: (shaderc::EnvVersion::Vulkan1_0, shaderc::SpirvVersion::V1_0),
        named: false,
        strict: false,
    };
    folder.write("old.spv", &bytes(&old.compile(|_, _, _| Err("none".into())).unwrap().0));
    for name in ["stripped", "named", "old", "stripped.spv"] {
        register("attention-output", Some(&format!("spv-{name}")), name, &folder.compiler()).unwrap();
        let variant = select_on_floor("attention-output", &format!("spv-{name}")).unwrap();
        assert_eq!(variant.bindings[1].name, "values", "{name}: as the generic shader has them");
        assert_eq!(variant.push_bytes, 24, "{name}");
    }
    // Beside GLSL of the same name it is used only if named with its extension.
    folder.write("source.spv", &bytes(&named(folder.config())));
    let compiler = folder.compiler();
    compiler.get_compute_function("source.spv", "main").unwrap();
    assert_eq!(compiler.compilations(), 0);
    compiler.get_compute_function("source", "main").unwrap();
    assert_eq!(compiler.compilations(), 1);
    let mut broken = bytes(&named(folder.config()));
    broken.truncate(broken.len() / 8 * 4);
    for (content, part) in [(&broken[..], "invalid SPIR-V"), (b"no words", "invalid SPIR-V"), (b"12345", "5 bytes")] {
        folder.write("broken.spv", content);
        let error = folder.compiler().get_compute_function("broken", "main").unwrap_err();
        assert!(matches!(error, Error::CompilationFailed { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}
