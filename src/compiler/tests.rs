//! The compiler on files of its own; nothing here needs a device.

use std::path::Path;

use super::*;
use crate::backend::vulkan::{Access, Capabilities, Feature, builtin, select};
use crate::backend::{registry, vulkan};

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

    fn config(&self) -> CompilerConfig {
        CompilerConfig {
            shader_directory: self.path().join("shaders"),
            cache_directory: Some(self.path().join("cache")),
            ..CompilerConfig::release()
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

/// A shader of attention-output by its author's own declarations.
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

#[test]
fn a_fault_names_file_and_line() {
    let folder = Folder::new(&[("broken.glsl", &elementwise("x[i] + oops")), ("good.glsl", &elementwise("x[i]"))]);
    let error = folder.compiler().get_compute_function("broken", "main").unwrap_err();
    let Error::CompilationFailed { shader, problem, .. } = &error else { panic!("{error}") };
    assert_eq!(shader, "broken");
    // The version line, two more of the head, two buffers, main and i come first.
    assert!(problem.contains("broken.glsl:8: error: 'oops' : undeclared identifier"), "{problem}");
    // All faults of a folder at once.
    folder.write("worse/also.glsl", b"#version 460\nvoid main( {}\n");
    let error = folder.compiler().compile_all_shaders().unwrap_err().to_string();
    assert!(error.contains("broken.glsl:8:") && error.contains("also.glsl:2:"), "{error}");
}

#[test]
fn what_is_not_there_is_named_with_the_remedy() {
    let folder = Folder::new(&[("one.glsl", &elementwise("x[i]"))]);
    let compiler = folder.compiler();
    let error = compiler.get_compute_function("two", "main").unwrap_err();
    assert!(matches!(&error, Error::ShaderNotFound { tried, .. } if tried.len() == 2), "{error}");
    assert!(error.to_string().contains("two.glsl") && error.to_string().contains("shader_directory"), "{error}");
    let error = compiler.get_compute_function("one", "forward").unwrap_err();
    assert!(matches!(error, Error::FunctionNotFound { .. }), "{error}");
    assert!(error.to_string().contains("\"main\"") && error.to_string().contains("// function: forward"), "{error}");
    let nowhere = CompilerConfig { shader_directory: folder.path().join("nowhere"), ..CompilerConfig::release() };
    assert!(matches!(ShaderCompiler::new(nowhere).compile_all_shaders(), Err(Error::ShaderNotFound { .. })));
}

#[test]
fn a_function_is_a_build_of_its_file() {
    let text = elementwise("scale(x[i])").replace(
        "void main()",
        "// function: twice\n// function: thrice\n#ifdef ENTRY_twice\nfloat scale(float v) { return 2.0 * v; }\n\
         #endif\n#ifdef ENTRY_thrice\nfloat scale(float v) { return 3.0 * v; }\n#endif\nvoid main()",
    );
    let folder = Folder::new(&[("scale.glsl", &text), ("deep/er/plain.glsl", &elementwise("x[i]"))]);
    let compiler = folder.compiler();
    assert_eq!(compiler.shaders().unwrap(), ["deep/er/plain", "scale"]);
    assert_eq!(compiler.functions("scale").unwrap(), ["twice", "thrice"]);
    assert_eq!(compiler.functions("deep/er/plain").unwrap(), ["main"]);
    let all = compiler.compile_all_shaders().unwrap();
    let names: Vec<&str> = all.iter().map(|f| f.variant.name).collect();
    assert_eq!(names, ["deep/er/plain", "scale:twice", "scale:thrice"]);
    assert_ne!(all[1].variant.spirv, all[2].variant.spirv);
    assert_eq!(all[1].variant.local_size, [64, 1, 1]);
    assert_eq!(all[1].variant.bindings.iter().map(|b| b.access).collect::<Vec<_>>(), [Access::Read, Access::Write]);
    assert!(matches!(compiler.get_compute_function("scale", "main"), Err(Error::FunctionNotFound { .. })));
    folder.write("twice.glsl", b"#version 460\n// function: a\n// function: a\nvoid main() {}\n");
    let error = compiler.functions("twice").unwrap_err().to_string();
    assert!(error.contains("twice.glsl:3: error: function \"a\" is declared twice"), "{error}");
}

#[test]
fn includes_are_found_beside_in_the_folder_and_among_grillys_own() {
    let text = elementwise("exponential(x[i]) * near * far").replace(
        "void main()",
        "#include \"near.glsl\"\n#include \"far.glsl\"\n#include \"numbers.glsl\"\nvoid main()",
    );
    let folder = Folder::new(&[
        ("sub/user.glsl", &text),
        ("sub/near.glsl", "const float near = 2.0;\n"),
        ("include/far.glsl", "const float far = 3.0;\n"),
    ]);
    let compiler = folder.compiler();
    let first = compiler.get_compute_function("sub/user", "main").unwrap();
    // A changed include is a changed shader.
    folder.write("include/far.glsl", b"const float far = 4.0;\n");
    let second = compiler.get_compute_function("sub/user", "main").unwrap();
    assert_ne!(first.variant.spirv, second.variant.spirv);
    assert_eq!(compiler.compilations(), 2);
    folder.write("missing.glsl", elementwise("x[i]").replace("void", "#include \"nothing.glsl\"\nvoid").as_bytes());
    let error = compiler.get_compute_function("missing", "main").unwrap_err().to_string();
    assert!(error.contains("missing.glsl:6") && error.contains("nothing.glsl"), "{error}");
}

#[test]
fn the_cache_serves_the_same_text_and_options_alone() {
    let folder = Folder::new(&[("a.glsl", &elementwise("x[i] * FACTOR"))]);
    let defines = |value: &str| [("FACTOR".to_owned(), value.to_owned())].into_iter().collect();
    let config = CompilerConfig { defines: defines("2.0"), ..folder.config() };
    let compile = |config: &CompilerConfig| {
        let compiler = ShaderCompiler::new(config.clone());
        let variant = compiler.get_compute_function("a", "main").unwrap().variant;
        (variant, compiler.compilations())
    };
    let (made, count) = compile(&config);
    assert_eq!((count, folder.cached().len()), (1, 1));
    let (found, count) = compile(&config);
    assert_eq!(count, 0, "from the cache");
    assert!(std::ptr::eq(made, found), "the same shader is the same variant");
    for other in [
        CompilerConfig { defines: defines("3.0"), ..config.clone() },
        CompilerConfig { debug_info: true, ..config.clone() },
        CompilerConfig { optimization_level: OptimizationLevel::Size, ..config.clone() },
        CompilerConfig { target_env: TargetEnv::Vulkan1_2, ..config.clone() },
        CompilerConfig { fast_math: false, ..config.clone() },
    ] {
        assert_eq!(compile(&other).1, 1, "{other:?}");
    }
    // A comment changes nothing, the text does.
    folder.write("a.glsl", (elementwise("x[i] * FACTOR") + "// a comment\n").as_bytes());
    assert_eq!(compile(&config).1, 0);
    folder.write("a.glsl", elementwise("FACTOR - x[i]").as_bytes());
    assert_eq!(compile(&config).1, 1);
    let off = CompilerConfig { enable_caching: false, ..config };
    assert_eq!((compile(&off).1, compile(&off).1), (1, 1));
}

#[test]
fn a_damaged_cache_is_compiled_anew() {
    let folder = Folder::new(&[("a.glsl", &elementwise("x[i]"))]);
    let good = folder.compiler().get_compute_function("a", "main").unwrap().variant.spirv;
    let [file] = folder.cached().try_into().unwrap();
    let bytes = std::fs::read(&file).unwrap();
    // Torn, another's, empty, and whole but no valid SPIR-V.
    let mut invalid = [5u32.to_le_bytes().to_vec(), vec![0; 60]].concat();
    vulkan::cache_file::write(&file, &invalid).unwrap();
    invalid = std::fs::read(&file).unwrap();
    for damaged in [&bytes[..bytes.len() - 3], b"something else altogether", b"", &invalid] {
        std::fs::write(&file, damaged).unwrap();
        let compiler = folder.compiler();
        assert_eq!(compiler.get_compute_function("a", "main").unwrap().variant.spirv, good);
        assert_eq!(compiler.compilations(), 1);
        assert_eq!(std::fs::read(&file).unwrap(), bytes, "mended");
    }
}

#[test]
fn many_at_once_share_a_cache() {
    let folder = Folder::new(&[("a.glsl", &elementwise("sqrt(x[i])"))]);
    let expected = folder.compiler().get_compute_function("a", "main").unwrap().variant;
    std::fs::remove_dir_all(folder.path().join("cache")).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let found = folder.compiler().get_compute_function("a", "main").unwrap().variant;
                assert!(std::ptr::eq(found, expected));
            });
        }
    });
    assert_eq!(folder.cached().len(), 1, "no unfinished file stays");
    let compiler = folder.compiler();
    compiler.get_compute_function("a", "main").unwrap();
    assert_eq!(compiler.compilations(), 0);
}

#[test]
fn without_fast_math_no_arithmetic_is_contracted() {
    let folder =
        Folder::new(&[("a.glsl", &elementwise("x[i] * 3.0 + x[i + 1u] / x[i + 2u] - dot(vec2(x[i]), vec2(0.5))"))]);
    for level in [OptimizationLevel::None, OptimizationLevel::Full] {
        let counts = |fast_math| {
            let config = CompilerConfig { fast_math, optimization_level: level, ..folder.config() };
            let function = ShaderCompiler::new(config).get_compute_function("a", "main").unwrap();
            module::contraction_counts(function.variant.spirv)
        };
        let (arithmetic, decorated) = counts(false);
        assert!(arithmetic >= 4 && decorated == arithmetic, "{decorated} of {arithmetic}");
        assert_eq!(counts(true).1, 0);
    }
}

#[test]
fn debug_information_stays_where_it_is_asked_for() {
    let folder = Folder::new(&[("a.glsl", &elementwise("x[i]"))]);
    let size = |config: CompilerConfig| {
        let config =
            CompilerConfig { shader_directory: folder.config().shader_directory, enable_caching: false, ..config };
        let spirv = ShaderCompiler::new(config).get_compute_function("a", "main").unwrap().variant.spirv;
        let module = rspirv::dr::load_words(spirv).unwrap();
        (module.debug_names.len() + module.debug_string_source.len(), spirv.len())
    };
    let (debug, release) = (size(CompilerConfig::debug()), size(CompilerConfig::release()));
    assert!(debug.0 > 0 && release.0 == 0 && release.1 < debug.1, "{debug:?} {release:?}");
}

fn select_on_floor(shader: &str, architecture: &str) -> crate::Result<&'static Variant> {
    select(shader, architecture, &Capabilities::floor())
}

#[test]
fn a_registered_shader_is_the_one_selected() {
    let folder = Folder::new(&[("mine.glsl", &attention(BINDINGS, PUSH))]);
    register("attention-output", Place::Architecture("selected-arch"), "mine", &folder.compiler()).unwrap();
    let variant = select_on_floor("attention-output", "Selected-Arch").unwrap();
    assert_eq!((variant.name, variant.push_bytes, variant.local_size), ("mine", 24, [64, 1, 1]));
    assert_eq!(registry::read().find("attention-output", "selected-arch").unwrap().file, "mine");
    // Others keep theirs.
    assert_eq!(select_on_floor("attention-output", "").unwrap().name, "attention-output");
    assert_eq!(select_on_floor("attention-output", "gpt2").unwrap().name, "attention-output-gpt");
    // One of grilly's own may serve, too.
    register("attention-output", Place::Architecture("other-arch"), "attention-output-t5", &folder.compiler()).unwrap();
    assert_eq!(select_on_floor("attention-output", "other-arch").unwrap().name, "attention-output-t5");
    let error = register("attention-output", Place::Architecture("x"), "layer-norm", &folder.compiler()).unwrap_err();
    assert!(matches!(error, Error::PipelineCreationFailed { .. }), "{error}");
}

#[test]
fn what_differs_from_the_interface_is_named() {
    let refused = |text: String, part: &str| {
        let folder = Folder::new(&[("mine.glsl", &text)]);
        let error = register("attention-output", Place::Architecture("refused"), "mine", &folder.compiler());
        let error = error.unwrap_err();
        assert!(matches!(error, Error::PipelineCreationFailed { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    let declared = |from: &str, to: &str| attention(&BINDINGS.replace(from, to), PUSH).replace(from, to);
    refused(declared("values", "vals"), "binding 1 is called \"vals\", expected \"values\"");
    refused(declared("binding = 2", "binding = 3"), "binding 3 \"y\" is not one of 0 weights, 1 values, 2 y");
    refused(declared("binding = 2", "binding = 3"), "binding 2 \"y\", the result, is missing");
    refused(declared("readonly buffer W", "buffer W"), "binding 0 \"weights\" is read and written, expected readonly");
    refused(
        attention(BINDINGS, &PUSH.replace("uint heads", "float heads")),
        "push constant \"heads\" is float, expected uint",
    );
    refused(attention(BINDINGS, &PUSH.replace("q_len", "length")), "the push constant at byte 12 is called \"length\"");
    refused(attention(BINDINGS, &format!("{PUSH} uint more;")), "push constant \"more\" at byte 24 is one too many");
    let constant = |line: &str| attention(&format!("{line}\n{BINDINGS}"), PUSH).replace("values[0]", "values[WIDTH]");
    refused(constant("layout(constant_id = 1) const uint WIDTH = 0;"), "constant_id 1 is called \"WIDTH\"");
    assert!(registry::read().find_specific("attention-output", "refused").is_none());
    // A further constant, and less than the whole push block, are the shader's own matter.
    let folder = Folder::new(&[
        ("more.glsl", &constant("layout(constant_id = 9) const uint WIDTH = 0;")),
        ("less.glsl", &attention(BINDINGS, "uint batch;")),
    ]);
    register("attention-output", Place::Architecture("more"), "more", &folder.compiler()).unwrap();
    register("attention-output", Place::Architecture("less"), "less", &folder.compiler()).unwrap();
    assert_eq!(select_on_floor("attention-output", "less").unwrap().push_bytes, 24);
}

#[test]
fn precompiled_modules_are_taken_with_and_without_names() {
    let folder = Folder::new(&[("source.glsl", &attention(BINDINGS, PUSH))]);
    let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let named = |config: CompilerConfig| {
        let config = CompilerConfig { enable_caching: false, ..config };
        ShaderCompiler::new(config).get_compute_function("source", "main").unwrap().variant.spirv
    };
    folder.write("stripped.spv", &bytes(named(folder.config())));
    let debug = CompilerConfig { shader_directory: folder.config().shader_directory, ..CompilerConfig::debug() };
    folder.write("named.spv", &bytes(named(debug)));
    // What `glslc` makes unless told otherwise: SPIR-V of Vulkan 1.0, where a storage buffer is a decorated uniform.
    let old = glsl::Request {
        text: &attention(BINDINGS, PUSH),
        file: "old",
        defines: &Default::default(),
        target: (shaderc::EnvVersion::Vulkan1_0, shaderc::SpirvVersion::V1_0),
        named: false,
        strict: false,
    };
    folder.write("old.spv", &bytes(&old.compile(|_, _| Err("none".into())).unwrap().0));
    for name in ["stripped", "named", "old", "stripped.spv"] {
        register("attention-output", Place::Architecture(&format!("spv-{name}")), name, &folder.compiler()).unwrap();
        let variant = select_on_floor("attention-output", &format!("spv-{name}")).unwrap();
        assert_eq!(variant.bindings[1].name, "values", "{name}: as the generic shader has them");
        assert_eq!(variant.push_bytes, 24, "{name}");
    }
    // Beside GLSL of the same name it is taken when it is named with its ending.
    folder.write("source.spv", &bytes(named(folder.config())));
    let compiler = folder.compiler();
    compiler.get_compute_function("source.spv", "main").unwrap();
    assert_eq!(compiler.compilations(), 0);
    compiler.get_compute_function("source", "main").unwrap();
    assert_eq!(compiler.compilations(), 1);
    let mut broken = bytes(named(folder.config()));
    broken.truncate(broken.len() / 8 * 4);
    for (content, part) in [(&broken[..], "invalid SPIR-V"), (b"no words", "invalid SPIR-V"), (b"12345", "5 bytes")] {
        folder.write("broken.spv", content);
        let error = folder.compiler().get_compute_function("broken", "main").unwrap_err();
        assert!(matches!(error, Error::CompilationFailed { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn what_a_shader_needs_of_a_device_is_asked_of_it() {
    let half = attention(BINDINGS, PUSH)
        .replace("#extension", "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n#extension")
        .replace("float(push.batch)", "float(float16_t(push.batch))");
    let double = attention(BINDINGS, PUSH).replace("float(push.batch)", "float(double(push.batch) * weights[1])");
    let folder = Folder::new(&[("half.glsl", &half), ("double.glsl", &double)]);
    register("attention-output", Place::Architecture("half"), "half", &folder.compiler()).unwrap();
    let error = select_on_floor("attention-output", "half").unwrap_err();
    assert!(matches!(error, Error::PipelineCreationFailed { .. }), "{error}");
    assert!(error.to_string().contains("it needs float16, which floor lacks"), "{error}");
    let mut capable = Capabilities::floor();
    capable.features.push(Feature::Float16);
    assert_eq!(select("attention-output", "half", &capable).unwrap().name, "half");
    let error = register("attention-output", Place::Architecture("double"), "double", &folder.compiler()).unwrap_err();
    assert!(error.to_string().contains("the SPIR-V capability Float64"), "{error}");
}

#[test]
fn grillys_own_shaders_of_one_name_have_one_interface() {
    let generic = builtin("attention-output").unwrap().variants[0];
    assert_eq!(
        generic.push.iter().map(|m| m.name).collect::<Vec<_>>(),
        ["batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim"]
    );
    for own in ["bigbird", "global-window", "gpt", "llama", "t5", "windowed"] {
        let specific = builtin(&format!("attention-output-{own}")).unwrap().variants[0];
        assert_eq!((specific.bindings, specific.push), (generic.bindings, generic.push), "{own}");
        assert_eq!(specific.constants, generic.constants, "{own}");
    }
}

#[test]
fn a_name_that_would_never_be_dispatched_is_refused() {
    let folder = Folder::new(&[("mine.glsl", &elementwise("x[i]"))]);
    let error = register("activation-gelu", Place::Generic, "mine", &folder.compiler()).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    // The names that upstream registers lead nowhere new.
    register("activation-gelu", Place::Generic, "activation-gelu", &folder.compiler()).unwrap();
    // A name of the user's own is kept with its file.
    register("my-own-shader", Place::Generic, "mine", &folder.compiler()).unwrap();
    assert_eq!(registry::read().find("my-own-shader", "gpt").unwrap().file, "mine");
    let error = register("attention-output", Place::Architecture("a"), "nothing", &folder.compiler()).unwrap_err();
    assert!(matches!(error, Error::ShaderNotFound { .. }), "{error}");
}
