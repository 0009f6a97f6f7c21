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

#[test]
fn uniform_blocks_and_other_sets_become_storage_buffers_of_set_0() {
    let text = "#version 450\nlayout(local_size_x = 1) in;\n\
                layout(std140, set = 2, binding = 5) uniform U { float scale; vec3 shift[2]; mat3 turn; } u;\n\
                layout(std430, binding = 3) buffer Y { uint n; vec3 y[]; } b;\n\
                void main() { b.y[0] = u.turn * (u.scale * b.y[0]) + u.shift[b.n]; }\n";
    let folder = Folder::new(&[("new.glsl", text)]);
    let old = glsl::Request {
        text,
        file: "old",
        defines: &Default::default(),
        target: (shaderc::EnvVersion::Vulkan1_0, shaderc::SpirvVersion::V1_0),
        named: true,
        strict: false,
    };
    let old = old.compile(|_, _, _| Err("none".into())).unwrap().0;
    assert!(old[1] < 0x0001_0300, "of a version without a class of storage buffers");
    folder.write("old.spv", &old.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
    for name in ["old", "new"] {
        let found = folder.compiler().get_compute_function(name, "main").unwrap();
        let [b, u] = [Place { set: 0, binding: 3 }, Place { set: 2, binding: 5 }];
        assert_eq!(found.buffers().collect::<Vec<_>>(), [(b, "b", "readwrite"), (u, "u", "readonly")], "{name}");
        assert_eq!(found.variant.bindings.iter().map(|binding| binding.index).collect::<Vec<_>>(), [0, 1]);
        // Each by its name, its block's name and its place.
        for (number, names) in
            [["b".into(), "Y".into(), b.into()], ["u".into(), "U".into(), BufferName::from(u)]].iter().enumerate()
        {
            names.iter().for_each(|name| assert_eq!(found.place(name).unwrap(), number));
        }
        let block = found.block(&"U".into(), &[]).unwrap();
        let places: Vec<_> = block.members.iter().map(|member| (member.name.as_str(), member.offset)).collect();
        assert_eq!(places, [("scale", 0), ("shift", 16), ("turn", 48)], "{name}");
        let axes =
            |place: usize| block.members[place].axes.iter().map(|axis| (axis.size, axis.stride)).collect::<Vec<_>>();
        assert_eq!(
            [axes(0), axes(1), axes(2)],
            [vec![], vec![(Some(2), 16), (Some(3), 4)], vec![(Some(3), 4), (Some(3), 16)]]
        );
        assert_eq!((block.bytes, block.stride), (48 + 2 * 16 + 12, None));
        let block = found.block(&b.into(), &[]).unwrap();
        assert_eq!((block.bytes, block.stride, block.size(3).unwrap()), (16, Some(16), 64));
        let y: Vec<u8> = (1..=24).collect();
        let memory = block.pack(&[("y", &y), ("n", &[9, 0, 0, 0])]).unwrap();
        assert_eq!((&memory[..4], &memory[16..28], &memory[32..44]), (&[9, 0, 0, 0][..], &y[..12], &y[12..]));
        assert_eq!(
            [block.unpack(&memory, "y").unwrap(), block.unpack(&memory, "n").unwrap()],
            [y.clone(), vec![9, 0, 0, 0]]
        );
        for (given, part) in [
            (vec![("y", &y[..])], "\"n\" is missing"),
            (vec![("y", &y[..11]), ("n", &y[..4])], "y has 11 bytes, expected 12 for each"),
            (vec![("y", &y[..]), ("n", &y[..3])], "n has 3 bytes, expected 4"),
            (vec![("z", &y[..])], "no member is called \"z\"; there are n, y"),
        ] {
            let error = block.pack(&given).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
