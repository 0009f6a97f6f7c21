//! The build script's own rules: what a shader may say of its kernels, and which faults of a shader's interface stop the build.
#![cfg(feature = "vulkan")]
#![allow(dead_code)]

#[path = "../src/backend/vulkan/capabilities.rs"]
mod capabilities;
#[path = "../build/emit.rs"]
mod emit;
#[path = "../build/everywhere.rs"]
mod everywhere;
#[path = "../src/compiler/glsl.rs"]
mod glsl;
#[path = "../src/backend/vulkan/interface.rs"]
mod interface;
#[path = "../build/kinds.rs"]
mod kinds;
#[path = "../build/manifest.rs"]
mod manifest;
#[path = "../build/sources.rs"]
mod sources;
#[path = "../src/backend/vulkan/spirv.rs"]
mod spirv;

use std::path::Path;

use interface::{Access, Binding, Constant, Interface, PushMember, Scalar};

const SHADER: &str = "shaders/norm/layer-norm.glsl";

/// The kernels of a shader with these lines.
fn parse(text: &str) -> Result<Vec<manifest::Kernel>, String> {
    parse_with(text, &["float16", "int8"])
}

fn parse_with(text: &str, features: &[&str]) -> Result<Vec<manifest::Kernel>, String> {
    let lines: String = text.lines().map(|line| format!("//# {line}\n")).collect();
    let shader = format!("#version 460\n// Computes: [[variants]]\n{lines}\nvoid main() {{}}\n");
    manifest::parse(&shader, Path::new(SHADER), features)
}

#[test]
fn a_shader_gives_kernels_with_named_variants() {
    let kernels = parse(
        r#"
        [[variants]]
        name = "half"
        needs = ["float16"]
        defines = { HALF = "1" }
        [[variants]]
        [builds]
        normalize = { define = "UNSCALED" }
        "#,
    )
    .unwrap();
    assert!(kernels.iter().all(|kernel| kernel.file == Path::new(SHADER)));
    let names: Vec<&str> = kernels.iter().flat_map(|k| &k.variants).map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["layer-norm-half", "layer-norm", "normalize-half", "normalize"]);
    let defines: Vec<Vec<&str>> =
        kernels.iter().flat_map(|k| &k.variants).map(|v| v.defines.keys().map(|name| &**name).collect()).collect();
    assert_eq!(defines, [vec!["HALF"], vec![], vec!["HALF", "UNSCALED"], vec!["UNSCALED"]]);
    assert!(kernels.iter().flat_map(|k| &k.variants).all(|v| v.defines.values().all(|value| value == "1")));
}

#[test]
fn a_shader_that_says_nothing_is_one_kernel_in_float32() {
    let kernels = parse("").unwrap();
    assert_eq!(kernels, parse("[[variants]]").unwrap());
    let [manifest::Kernel { name, variants, .. }] = &kernels[..] else { panic!("{kernels:?}") };
    assert_eq!((&**name, variants.len(), &*variants[0].name), ("layer-norm", 1, "layer-norm"));
    assert!(variants[0].needs.is_empty() && variants[0].defines.is_empty() && variants[0].stored == "float32");
}

#[test]
fn every_variant_is_built_for_every_element_type() {
    let rows = "variants = [{ name = 'wide', needs = ['int8'] }, {}]";
    let builds = "[builds]\nb = { define = 'B' }\nc = { define = 'C', stored = ['float16'] }";
    let kernels = parse(&format!("stored = ['float32', 'float16']\n{rows}\n{builds}")).unwrap();
    let variants = &kernels[0].variants;
    let names: Vec<(&str, &str)> = variants.iter().map(|v| (&*v.name, &*v.stored)).collect();
    let expected = [
        ("layer-norm-wide", "float32"),
        ("layer-norm", "float32"),
        ("layer-norm-wide-float16", "float16"),
        ("layer-norm-float16", "float16"),
    ];
    assert_eq!(names, expected);
    let defines: Vec<Option<&str>> = variants.iter().map(|v| v.defines.get("STORED").map(|s| &**s)).collect();
    assert_eq!(defines, [None, None, Some("FLOAT16"), Some("FLOAT16")]);
    assert_eq!(kernels[1].variants.len(), 4, "a build has the file's types");
    let rows = "variants = [{ only = ['float16'], needs = ['int8'] }, {}]";
    let apart = parse(&format!("stored = ['float32', 'float16']\n{rows}"));
    assert!(apart.unwrap_err().contains("two variants"), "both of float16");
    let rows = "variants = [{ only = ['float16'], needs = ['int8'] }, { only = ['float32'] }]";
    let apart = parse(&format!("stored = ['float32', 'float16']\n{rows}")).unwrap();
    let needs: Vec<(&str, usize)> = apart[0].variants.iter().map(|v| (&*v.stored, v.needs.len())).collect();
    assert_eq!(needs, [("float32", 0), ("float16", 1)]);
    assert!(parse("variants = [{ only = ['float61'] }]").unwrap_err().contains("unknown type \"float61\""));
    let names: Vec<(&str, &str)> = kernels[2].variants.iter().map(|v| (&*v.name, &*v.stored)).collect();
    assert_eq!(names, [("c-wide", "float16"), ("c", "float16")], "unless it declares its own");
    let wrong = parse("stored = ['half']").unwrap_err();
    assert!(wrong.contains("stored names \"half\", expected some of float32, float16, bfloat16"), "{wrong}");
}

#[test]
fn a_variant_with_matrices_is_one_for_each_of_their_shapes() {
    let features: Vec<&str> = capabilities::Feature::ALL.iter().map(|f| f.name()).collect();
    let parse = |text: &str| parse_with(text, &features);
    let rows = "variants = [{ matrices = 's8_s32', needs = ['int8'] }, { name = 'plain' }]";
    let kernels = parse(rows).unwrap();
    let found: Vec<(&str, Vec<&str>)> =
        kernels[0].variants.iter().map(|v| (&*v.name, v.needs.iter().map(|name| &**name).collect())).collect();
    let expected = [
        ("layer-norm", vec!["coopmat_s8_s32_16x16x32", "int8"]),
        ("layer-norm-16x16x16", vec!["coopmat_s8_s32_16x16x16", "int8"]),
        ("layer-norm-8x16x32", vec!["coopmat_s8_s32_8x16x32", "int8"]),
        ("layer-norm-8x8x8", vec!["coopmat_s8_s32_8x8x8", "int8"]),
        ("layer-norm-plain", vec![]),
    ];
    assert_eq!(found, expected);
    let types =
        parse("stored = ['float32', 'float16']\nvariants = [{ only = ['float16'], matrices = 'f16_f32' }]").unwrap();
    let names: Vec<&str> = types[0].variants.iter().map(|v| &*v.name).collect();
    assert_eq!(names, ["layer-norm-float16", "layer-norm-8x16x16-float16", "layer-norm-8x8x8-float16"]);
    let wrong = parse("variants = [{ matrices = 'f17_f32' }]").unwrap_err();
    assert!(wrong.contains("no device has matrices \"f17_f32\""), "{wrong}");
}

#[test]
fn builds_for_every_device_are_in_float32_with_all_variants() {
    let rows = "variants = [{ name = 'wide', needs = ['int8'] }, {}]";
    let builds = "[builds]\nb = { define = 'B', numerics = ['run'] }\nc = { define = 'C', numerics = ['everywhere'] }";
    let both = "stored = ['float32', 'float16']\nnumerics = ['run', 'everywhere']";
    let kernels = parse(&format!("{both}\n{rows}\n{builds}")).unwrap();
    let names = |place: usize| kernels[place].variants.iter().map(|v| &*v.name).collect::<Vec<_>>();
    let run = ["layer-norm-wide", "layer-norm", "layer-norm-wide-float16", "layer-norm-float16"];
    assert_eq!(names(0)[..4], run);
    assert_eq!(names(0)[4..], ["layer-norm-wide-everywhere", "layer-norm-everywhere"]);
    assert_eq!(names(1).len(), 4, "builds may have their own");
    assert_eq!(names(2), ["c-wide", "c"], "a build for every device alone keeps its other variants");
    let last = &kernels[0].variants[5];
    assert_eq!((&*last.stored, &*last.numerics), ("float32", "everywhere"));
    assert!(last.defines.contains_key("EVERYWHERE") && !kernels[0].variants[1].defines.contains_key("EVERYWHERE"));
    let wrong = parse("numerics = ['nowhere']").unwrap_err();
    assert!(wrong.contains("numerics names \"nowhere\", expected some of run, everywhere"), "{wrong}");
}

/// A shader whose main function is this, as a build for every device.
fn everywhere_of(body: &str) -> Result<Vec<u32>, String> {
    let text = format!(
        "#version 460\nlayout(local_size_x = 1) in;\nlayout(std430, binding = 0) buffer Y {{ float y[]; }};\n\
         float unused(float x) {{ return 1.0 / x; }}\nvoid main() {{ {body} }}\n"
    );
    let defines = Default::default();
    let target = (shaderc::EnvVersion::Vulkan1_3, shaderc::SpirvVersion::V1_6);
    let request = glsl::Request { text: &text, file: "a.glsl", defines: &defines, target, named: true, strict: true };
    let (words, _) = request.compile(|_, _, _| Err("nothing is included".into()))?;
    everywhere::everywhere(&words)
}

#[test]
fn builds_for_every_device_have_no_arithmetic_that_may_differ() {
    let words = everywhere_of("y[0] = -(y[1] * y[2] + y[3]) - abs(roundEven(y[4]));").unwrap();
    let module = spirv::load(&words).unwrap();
    // OpDecorate (71) with NoContraction (42): of the product, the sum, the difference and the negation.
    let kept = module.annotations.iter().filter(|i| i.class.opcode as u32 == 71 && i.operands.len() == 2);
    let kept = kept.filter(|i| format!("{:?}", i.operands[1]).contains("NoContraction")).count();
    assert_eq!((kept, module.functions.len(), module.debug_names.len()), (4, 1, 0));
    for (body, found) in [
        ("y[0] = fma(y[1], y[2], y[3]);", "instruction 50 of GLSL.std.450 may differ between devices"),
        ("y[0] = y[1] / y[2];", "OpFDiv may differ between devices"),
        ("y[0] = unused(y[1]);", "OpFDiv may differ between devices"),
        ("y[0] = max(y[1], y[2]);", "instruction 40 of GLSL.std.450 may differ between devices"),
        ("y[0] = sqrt(y[1]) + exp(y[2]);", "instruction 31 of GLSL.std.450 may differ between devices"),
        ("y[0] = dot(vec2(y[1]), vec2(y[2]));", "OpDot may differ between devices"),
        ("y[0] = mod(y[1], y[2]);", "OpFMod may differ between devices"),
        ("y[0] = (vec2(y[1]) * y[2]).x;", "OpVectorTimesScalar may differ between devices"),
    ] {
        assert_eq!(everywhere_of(body).unwrap_err(), found, "{body}");
    }
}

#[test]
fn conditions_are_of_sizes_or_facts() {
    let found = ["k >= 32", "n % 8", "subgroup_size <= 64"].map(capabilities::condition);
    assert_eq!(found, [Some(("k", ">=", 32)), Some(("n", "%", 8)), Some(("subgroup_size", "<=", 64))]);
    let facts = ["software_device", "int8"];
    assert_eq!(facts.map(capabilities::condition), facts.map(|fact| Some((fact, "", 0))));
    assert_eq!(["m >= 3", "k>=3", "k >= x", "software"].map(capabilities::condition), [None; 4]);
}

#[test]
fn a_row_with_a_fault_is_refused_by_name() {
    let refused = |text: &str| parse(text).unwrap_err();
    let unknown = refused("variants = [{ name = 'b', needs = ['flaot16'] }, {}]");
    assert_eq!(
        unknown,
        "shaders/norm/layer-norm.glsl: error: layer-norm: unknown feature \"flaot16\", expected one of float16, int8"
    );
    let unclear = refused("variants = [{ name = 'b', when = ['k > 3'] }, {}]");
    assert!(unclear.contains("no condition \"k > 3\", expected as \"k >= 32\" or \"software_device\""), "{unclear}");
    assert!(refused("[builds]\nrms_norm = { define = 'RMS' }").contains("hyphens"));
    assert!(refused("variants = [{}, {}]").contains("two variants"));
    let none =
        refused("variants = [{ name = 'a', defines = { A = '1' } }, {}]\n[builds]\nb = { define = 'B', of = 'C' }");
    assert!(none.contains("b: it has no variants"), "{none}");
    assert!(refused("file = 'a.glsl'").contains("line 3, column"));
}

#[test]
fn the_shaders_of_the_crate_are_read() {
    let features: Vec<&str> = capabilities::Feature::ALL.iter().map(|f| f.name()).collect();
    let kernels = manifest::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/shaders")), &features).unwrap();
    assert!(kernels.iter().any(|k| k.name == "layer-norm"));
    assert!(kernels.windows(2).all(|pair| pair[0].name < pair[1].name), "sorted");
    assert!(kernels.iter().all(|k| !k.file.components().any(|part| part.as_os_str() == "include")));
}

#[test]
fn every_included_file_has_a_kernel_beside_it_or_a_line_of_the_page_on_shaders() {
    let shaders = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/shaders"));
    let page = std::fs::read_to_string(shaders.join("README.md")).unwrap();
    let (mut names, mut parts) = (Vec::new(), 0);
    for path in manifest::files(shaders).unwrap() {
        let name = path.file_stem().unwrap().to_str().unwrap();
        if manifest::is_part(&path) {
            let (kernel, _) = name.split_once('.').unwrap();
            assert!(path.with_file_name(format!("{kernel}.glsl")).exists(), "{name} is a part of no kernel");
            parts += 1;
        } else if path.starts_with(shaders.join("include")) {
            assert!(page.contains(&format!("\n| `{name}` | ")), "shaders/README.md has no line for {name}");
            names.push(name.to_owned());
        }
    }
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all, "users' shaders may name a file without its folder");
    assert!(parts > 5 && all > 40, "{parts} parts, {all} files");
}

#[test]
fn the_numbers_of_an_enum_become_macros() {
    let source =
        |members: &str| format!("//! A file.\n#[repr(u32)]\npub enum PoolMode {{\n{members}}}\n\nconst A: u32 = 5;\n");
    let numbers = |members: &str| kinds::numbers("a.rs", &source(members));
    let found = numbers("    /// The first, or `x = 3,`.\n    #[default]\n    Cls = 0,\n    MeanSqrtLength = 30,\n");
    assert_eq!(found.unwrap(), "#define POOL_CLS 0u\n#define POOL_MEAN_SQRT_LENGTH 30u\n");
    assert_eq!(numbers("    Cls,\n").unwrap_err(), "a.rs: error: no number in \"Cls,\"");
    assert_eq!(kinds::numbers("a.rs", "pub enum A {\n}\n").unwrap_err(), "a.rs: error: no enum with #[repr(u32)]");
    for file in kinds::SOURCES {
        let source = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        assert!(kinds::numbers(file, &source).unwrap().lines().count() > 1, "{file}");
        assert_eq!(source.matches("#[repr(u32)]").count(), 1, "{file}: one enum a file");
    }
}

fn interface() -> Interface {
    let binding = |name: &str, index, access| Binding { name: name.into(), index, access };
    Interface {
        bindings: vec![binding("x", 0, Access::Read), binding("y", 1, Access::Write)],
        push: vec![PushMember { name: "eps".into(), scalar: Scalar::F32 }],
        constants: vec![Constant { name: "LANES".into(), id: 0, scalar: Scalar::U32, default: 32 }],
        local_size: [64, 1, 1],
        shared_bytes: 256,
    }
}

fn kernel(interfaces: Vec<Interface>) -> emit::Kernel {
    let variant = |(place, interface): (usize, Interface)| emit::Variant {
        row: manifest::Variant { name: format!("norm-{place}"), stored: "float32".into(), ..Default::default() },
        spirv: vec![0x0723_0203],
        first: 0,
        interface,
    };
    let variants = interfaces.into_iter().enumerate().map(variant).collect();
    let made_of = manifest::MadeOf::default();
    emit::Kernel { name: "layer-norm".into(), file: SHADER.into(), variants, made_of }
}

fn emit(kernels: &[emit::Kernel]) -> Result<String, String> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/shaders/include"));
    let file = |name: &str| (name.to_owned(), (name.to_owned(), std::fs::read_to_string(folder.join(name)).unwrap()));
    let includes = ["counts.glsl", "elements.glsl", "rows/held-rows.glsl"].map(file).into();
    emit::emit(kernels, &sources::sources(&includes)?)
}

#[test]
fn names_of_the_shader_become_names_of_fields() {
    let text = emit(&[kernel(vec![interface()])]).unwrap();
    for line in ["pub mod layer_norm {", "name: \"x\"", "name: \"y\"", "pub eps: f32,", "pub lanes: u32,"] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let renamed = || {
        let mut renamed = interface();
        renamed.push[0].name = "epsilon".into();
        emit(&[kernel(vec![renamed])]).unwrap()
    };
    assert!(renamed().contains("pub epsilon: f32,") && !renamed().contains("pub eps: f32,"));
    assert_eq!(renamed(), renamed(), "the same text every time");
}

#[test]
fn blocks_with_the_same_members_are_one_type() {
    let named = |name: &str, change: fn(&mut Interface)| {
        let mut interface = interface();
        change(&mut interface);
        emit::Kernel { name: name.into(), ..kernel(vec![interface]) }
    };
    let renamed = |i: &mut Interface| i.push[0].name = "epsilon".into();
    let text = emit(&[named("a", |_| {}), named("b", |_| {}), named("c", renamed)]).unwrap();
    assert_eq!((text.matches("pub struct Push").count(), text.matches("pub use super::a::Push;").count()), (2, 1));
}

#[test]
fn a_block_is_made_of_what_an_include_declares_or_its_manifest_names() {
    let kernel = |members: &[&str], scalar, name: Option<&str>| {
        let mut interface = interface();
        let member = |name: &&str| PushMember { name: (*name).into(), scalar };
        interface.push = members.iter().map(member).collect();
        let made_of = manifest::MadeOf { push: name.map(Into::into), constants: None };
        emit::Kernel { made_of, ..kernel(vec![interface]) }
    };
    let text = |members: &[&str], name| emit(&[kernel(members, Scalar::U32, name)]).unwrap();
    let rows = text(&["rows_of", "rows", "columns", "eps"], None);
    assert!(rows.contains("impl From<crate::backend::vulkan::kernels::rows::Rows> for Push"), "{rows}");
    assert!(rows.contains("columns: from.columns, ..Self::default()"), "{rows}");
    let elements = text(&["rows_of", "rows", "columns", "rows_per_group"], None);
    assert!(elements.contains("elementwise::Elements> for Push") && !elements.contains("rows::Rows>"), "{elements}");
    assert!(!text(&["rows_of", "rows", "n"], None).contains("for Push"), "no include declares these");
    let [one, two] = [&["n", "k"][..], &["k", "width"]].map(|members| kernel(members, Scalar::U32, Some("Product")));
    let both = emit(&[one.clone(), two]).unwrap();
    assert!(both.contains("pub struct Product { /// `k` of the shaders.\npub k: u32,"), "{both}");
    assert!(both.contains("pub n: u32,") && both.contains("pub width: u32,"), "the members of both: {both}");
    assert_eq!(both.matches("impl From<super::Product> for Push").count(), 2);
    let fault = emit(&[one, kernel(&["k"], Scalar::F32, Some("Product"))]).unwrap_err();
    assert!(fault.contains("k of Product is of two types"), "{fault}");
}

#[test]
fn variants_that_disagree_stop_the_build() {
    let disagree = |change: fn(&mut Interface)| {
        let mut other = interface();
        change(&mut other);
        emit(&[kernel(vec![interface(), other])]).err().unwrap_or_default()
    };
    let renamed = disagree(|i| i.bindings[0].name = "source".into());
    assert!(renamed.starts_with("shaders/norm/layer-norm.glsl: error: variants norm-0 and norm-1 differ in bindings"));
    assert!(disagree(|i| i.bindings[1].access = Access::ReadWrite).contains("differ in bindings"));
    assert!(disagree(|i| i.push[0].name = "epsilon".into()).contains("differ in push constants"));
    assert!(disagree(|i| i.constants[0].default = 64).contains("differ in a constant"));
    // Sizes and further constants are a variant's own matter.
    assert_eq!(disagree(|i| i.local_size = [32, 1, 1]), "");
    assert_eq!(
        disagree(|i| i.constants.push(Constant { name: "WIDE".into(), id: 1, scalar: Scalar::Bool, default: 0 })),
        ""
    );
    let shared = disagree(|i| i.constants[0].name = "WIDE".into());
    assert!(shared.contains("constant 0 is called lanes and wide"), "{shared}");
}
