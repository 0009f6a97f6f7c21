//! GLSL to SPIR-V: faults, functions, includes, options, the cache.

use super::*;
use crate::backend::vulkan::{Access, cache_file};

#[test]
fn a_fault_names_file_and_line() {
    let folder = Folder::new(&[("broken.glsl", &elementwise("x[i] + oops")), ("good.glsl", &elementwise("x[i]"))]);
    let error = folder.compiler().get_compute_function("broken", "main").unwrap_err();
    let Error::CompilationFailed { shader, problem, .. } = &error else { panic!("{error}") };
    assert_eq!(shader, "broken");
    // Preceded by the version line, two more lines of the head, two buffers, main and i.
    assert!(problem.contains("broken.glsl:8: error: 'oops' : undeclared identifier"), "{problem}");
    // All faults of a folder are reported together, whatever their kind, and what is right is compiled.
    folder.write("worse/also.glsl", b"#version 460\nvoid main( {}\n");
    folder.write("words.spv", b"four");
    folder.write("zebra.glsl", elementwise("x[i] - x[i]").as_bytes());
    let double = elementwise("scale(x[i])").replace("void main()", "// function: one\n// function: two\nvoid main()");
    folder.write("double.glsl", double.as_bytes());
    let compiler = folder.compiler();
    let error = compiler.compile_all_shaders().unwrap_err();
    let Error::CompilationFailed { shader, problem, .. } = &error else { panic!("{error}") };
    assert_eq!(shader, "broken, double, words, worse/also");
    for part in ["broken.glsl:8:", "also.glsl:2:", "words.spv", "double.glsl:10:"] {
        assert_eq!(problem.matches(part).count(), 1, "{part}: {problem}");
    }
    let each = compiler.compile_each(&compiler.shaders().unwrap());
    let good: Vec<_> = each.iter().filter(|(_, result)| result.is_ok()).map(|(shader, _)| shader.as_str()).collect();
    assert_eq!(good, ["good", "zebra"]);
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
    let nowhere =
        ShaderCompilerConfig { shader_directory: folder.path().join("nowhere"), ..ShaderCompilerConfig::release() };
    assert!(matches!(ShaderCompiler::new(nowhere).compile_all_shaders(), Err(Error::ShaderFolder { .. })));
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
        // grilly's own by their path in `shaders/include` or, wherever they are there, by their name.
        "#include \"near.glsl\"\n#include \"far.glsl\"\n#include \"numbers.glsl\"\n#include \"numbers/philox.glsl\"\n\
         #include \"quotient.glsl\"\nvoid main()",
    );
    let folder = Folder::new(&[
        ("sub/user.glsl", &text),
        ("sub/near.glsl", "const float near = 2.0;\n"),
        ("include/far.glsl", "const float far = 3.0;\n"),
    ]);
    let compiler = folder.compiler();
    let first = compiler.get_compute_function("sub/user", "main").unwrap();
    // A change of an included file changes the shader.
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
    let options = |factor: &str| CompileOptions { defines: [("FACTOR", factor)].into(), ..CompileOptions::default() };
    let config = ShaderCompilerConfig { compile_options: options("2.0"), ..folder.config() };
    let other = |compile_options| ShaderCompilerConfig { compile_options, ..folder.config() };
    let compile = |config: &ShaderCompilerConfig| {
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
        other(options("3.0")),
        ShaderCompilerConfig { debug_info: true, ..config.clone() },
        ShaderCompilerConfig { optimization_level: OptimizationLevel::Size, ..config.clone() },
        other(CompileOptions { target_env: TargetEnv::Vulkan1_2, ..options("2.0") }),
        other(CompileOptions { fast_math: false, ..options("2.0") }),
    ] {
        assert_eq!(compile(&other).1, 1, "{other:?}");
    }
    // A comment does not change the cache key; the code does.
    folder.write("a.glsl", (elementwise("x[i] * FACTOR") + "// a comment\n").as_bytes());
    assert_eq!(compile(&config).1, 0);
    folder.write("a.glsl", elementwise("FACTOR - x[i]").as_bytes());
    assert_eq!(compile(&config).1, 1);
    let off = ShaderCompilerConfig { enable_caching: false, ..config };
    assert_eq!((compile(&off).1, compile(&off).1), (1, 1));
}

#[test]
fn a_damaged_cache_is_compiled_anew() {
    let folder = Folder::new(&[("a.glsl", &elementwise("x[i]"))]);
    let good = folder.compiler().get_compute_function("a", "main").unwrap().variant.spirv;
    let [file] = folder.cached().try_into().unwrap();
    let bytes = std::fs::read(&file).unwrap();
    // Truncated, another shader's, empty, and complete but invalid SPIR-V.
    let mut invalid = [5u32.to_le_bytes().to_vec(), vec![0; 60]].concat();
    cache_file::write(&file, &invalid).unwrap();
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
            let compile_options = CompileOptions { fast_math, ..CompileOptions::default() };
            let config = ShaderCompilerConfig { compile_options, optimization_level: level, ..folder.config() };
            let function = ShaderCompiler::new(config).get_compute_function("a", "main").unwrap();
            module::contraction_counts(&function.variant.spirv)
        };
        let (arithmetic, decorated) = counts(false);
        assert!(arithmetic >= 4 && decorated == arithmetic, "{decorated} of {arithmetic}");
        assert_eq!(counts(true).1, 0);
    }
}

#[test]
fn debug_information_stays_where_it_is_asked_for() {
    let folder = Folder::new(&[("a.glsl", &elementwise("x[i]"))]);
    let size = |config: ShaderCompilerConfig| {
        let config = ShaderCompilerConfig {
            shader_directory: folder.config().shader_directory,
            enable_caching: false,
            ..config
        };
        let spirv = ShaderCompiler::new(config).get_compute_function("a", "main").unwrap().variant.spirv;
        let module = rspirv::dr::load_words(&*spirv).unwrap();
        (module.debug_names.len() + module.debug_string_source.len(), spirv.len())
    };
    let (debug, release) = (size(ShaderCompilerConfig::debug()), size(ShaderCompilerConfig::release()));
    assert!(debug.0 > 0 && release.0 == 0 && release.1 < debug.1, "{debug:?} {release:?}");
}

/// The error for a shader that includes `first`; reported quickly and with little memory.
fn refused(files: &[(&str, &str)], first: &str) -> String {
    let text = elementwise("x[i]").replace("void main()", &format!("#include \"{first}\"\nvoid main()"));
    let folder = Folder::new(&[files, &[("shader.glsl", text.as_str())]].concat());
    let error = folder.compiler().get_compute_function("shader", "main").unwrap_err();
    assert!(matches!(error, Error::CompilationFailed { .. }), "{error}");
    error.to_string()
}

#[test]
fn includes_in_circles_end() {
    let own = refused(&[("own.inc", "#include \"own.inc\"\n")], "own.inc");
    assert!(own.contains("own.inc:1") && own.contains("does a file include itself"), "{own}");
    let main = refused(&[], "shader.glsl");
    assert!(main.contains("does a file include itself"), "{main}");
    let two = "#include \"b.inc\"\n#include \"b.inc\"\n";
    let pair = refused(&[("a.inc", two), ("b.inc", &two.replace("b.inc", "a.inc"))], "a.inc");
    assert!(pair.contains("does a file include itself"), "{pair}");
    // Without a cycle, but 2^25 inclusions.
    let chain: Vec<(String, String)> = (0..25)
        .map(|i| (format!("{i}.inc"), format!("#include \"{}.inc\"\n", i + 1).repeat(2)))
        .chain([("25.inc".to_owned(), "\n".to_owned())])
        .collect();
    let chain: Vec<(&str, &str)> = chain.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let many = refused(&chain, "0.inc");
    assert!(many.contains("more than 4096 files are included"), "{many}");
    let large = format!("// {}\n", "-".repeat(600_000));
    let twice = "#include \"large.inc\"\n#include \"large.inc\"\n";
    let most = refused(&[("large.inc", &large), ("twice.inc", twice)], "twice.inc");
    assert!(most.contains("the included files have more than 1048576 bytes"), "{most}");
}

#[test]
fn what_is_no_text_is_not_read() {
    for endless in ["/dev/zero", "../../../../../../dev/zero", "/dev/stdin", "/proc"] {
        let message = refused(&[], endless);
        assert!(message.contains("is not a regular file") || message.contains("looked for"), "{message}");
    }
    let folder = Folder::new(&[("long.glsl", &format!("// {}", "-".repeat(1 << 20)))]);
    let error = folder.compiler().get_compute_function("long", "main").unwrap_err().to_string();
    assert!(error.contains("long.glsl has more than 1048576 bytes"), "{error}");
    let macros: String = (0..20).map(|i| format!("#define A{} A{i} A{i}\n", i + 1)).collect();
    let bomb = elementwise("x[i]").replace("void main()", &format!("#define A0 ;;;\n{macros}A20\nvoid main()"));
    folder.write("bomb.glsl", bomb.as_bytes());
    let error = folder.compiler().get_compute_function("bomb", "main").unwrap_err().to_string();
    assert!(error.contains("bytes with includes and macros in place"), "{error}");
}

#[test]
fn long_expressions_do_not_overflow_the_stack() {
    let expression = format!("x[i]{}", "+v".repeat(60_000));
    let text = elementwise(&expression).replace("void main() {", "void main() { float v = 1.0;");
    Folder::new(&[("long.glsl", &text)]).compiler().get_compute_function("long", "main").unwrap();
}

#[test]
#[cfg(unix)]
fn a_pipe_in_the_cache_counts_as_absent() {
    let folder = Folder::new(&[("one.glsl", &elementwise("x[i]"))]);
    let compiler = folder.compiler();
    compiler.get_compute_function("one", "main").unwrap();
    let entries = folder.cached();
    for entry in &entries {
        std::fs::remove_file(entry).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(entry).status().unwrap().success());
    }
    compiler.get_compute_function("one", "main").unwrap();
    assert_eq!((compiler.compilations(), entries.len()), (2, 1));
}

#[test]
fn a_shader_is_looked_for_in_one_folder_after_the_other() {
    let (first, second) = (Folder::new(&[]), Folder::new(&[("both.glsl", &elementwise("x[i] + 2.0"))]));
    first.write("both.spv", &[0; 4]);
    second.write("spv/only.spv", &[0; 4]);
    let lie = |folder: &Folder| folder.config().shader_directory;
    let fallback_directories = vec![lie(&second), lie(&second).join("spv")];
    let compile_options = CompileOptions { fallback_directories, ..CompileOptions::default() };
    let config = ShaderCompilerConfig { compile_options, enable_caching: false, ..first.config() };
    let compiler = ShaderCompiler::new(config);
    let found = |shader: &str| compiler.find(shader);
    // The folder takes precedence over the extension.
    assert_eq!(found("both").unwrap(), lie(&first).join("both.spv"));
    assert_eq!(found("both.glsl").unwrap(), lie(&second).join("both.glsl"));
    assert_eq!(found("only").unwrap(), lie(&second).join("spv/only.spv"));
    assert_eq!(found("spv/only").unwrap(), lie(&second).join("spv/only.spv"));
    let Err(Error::ShaderNotFound { tried, .. }) = found("none") else { panic!("none is found") };
    assert_eq!((tried.len(), tried[5].ends_with("spv/none.spv")), (6, true), "{tried:?}");
}
