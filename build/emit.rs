//! Generates Rust from interfaces: one module per kernel, with structs whose fields have the shader's names.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::capabilities::Feature;
use super::interface::{Constant, Interface, PushMember, Scalar};
use super::manifest;

/// A shader with its compiled variants.
pub struct Kernel {
    /// The op's name with hyphens.
    pub name: String,
    /// The GLSL file.
    pub file: PathBuf,
    /// The variants declared in the shader.
    pub variants: Vec<Variant>,
}

/// One build of a shader.
pub struct Variant {
    /// The variant's row in the manifest.
    pub row: manifest::Variant,
    /// The module.
    pub spirv: Vec<u32>,
    /// Its interface.
    pub interface: Interface,
}

/// The complete text of `kernels.rs`.
pub fn emit(kernels: &[Kernel]) -> Result<String, String> {
    let (mut out, mut errors, mut blocks) = (String::new(), String::new(), Vec::new());
    for kernel in kernels {
        match module(kernel, &mut blocks) {
            Ok(text) => out += &text,
            Err(fault) => writeln!(errors, "{}: error: {fault}", kernel.file.display()).expect("writes to memory"),
        }
    }
    let names = kernels.iter().map(|kernel| format!("&{}::KERNEL", kernel.name.replace('-', "_")));
    writeln!(out, "/// Every kernel, by name.\npub static ALL: &[&crate::backend::vulkan::kernel::Kernel] = &[")
        .expect("memory");
    writeln!(out, "{}];", names.collect::<Vec<_>>().join(", ")).expect("memory");
    if errors.is_empty() { Ok(out) } else { Err(errors) }
}

/// The texts of the files in `shaders/include`, by name, since users' shaders may include them, too.
pub fn includes(folder: &Path) -> Result<String, String> {
    let fail = |e: std::io::Error| format!("{}: error: {e}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let text = std::fs::read_to_string(entry.path()).map_err(fail)?;
        files.push((entry.file_name().to_string_lossy().into_owned(), text));
    }
    files.sort();
    let mut out = String::from("/// Name and text of each file of `shaders/include`.\n");
    writeln!(out, "pub static INCLUDES: &[(&str, &str)] = &{files:?};").expect("writes to memory");
    Ok(out)
}

/// Checks that the variants' interfaces differ only in constants and sizes; returns all constants set by callers.
fn constants(kernel: &Kernel) -> Result<Vec<Constant>, String> {
    let first = &kernel.variants[0];
    let mut constants = first.interface.constants.clone();
    for variant in &kernel.variants[1..] {
        let differ = |what: &str, a: String, b: String| {
            Err(format!("variants {} and {} differ in {what}: {a} and {b}", first.row.name, variant.row.name))
        };
        let (a, b) = (&first.interface, &variant.interface);
        if a.bindings != b.bindings {
            return differ("bindings", format!("{:?}", a.bindings), format!("{:?}", b.bindings));
        }
        if a.push != b.push {
            return differ("push constants", format!("{:?}", a.push), format!("{:?}", b.push));
        }
        for constant in &b.constants {
            match constants.iter().find(|c| c.name == constant.name) {
                Some(known) if known != constant => {
                    return differ("a constant", format!("{known:?}"), format!("{constant:?}"));
                }
                Some(_) => {}
                None => constants.push(constant.clone()),
            }
        }
    }
    // A constant named after a feature gets its value from the device.
    constants.retain(|c| Feature::named(&c.name.to_lowercase()).is_none());
    constants.sort_by_key(|c| c.id);
    Ok(constants)
}

/// The Rust type and literal of a 32-bit scalar; a bool is 0 or 1.
fn value(scalar: Scalar, bits: u32) -> (&'static str, String) {
    match scalar {
        Scalar::F32 => ("f32", format!("f32::from_bits({bits})")),
        Scalar::I32 => ("i32", format!("{}", bits as i32)),
        Scalar::U32 => ("u32", format!("{bits}")),
        Scalar::Bool => ("bool", format!("{}", bits != 0)),
    }
}

/// The expression for a constant's bits.
fn bits(constant: &Constant) -> String {
    let name = constant.name.to_lowercase();
    match constant.scalar {
        Scalar::F32 => format!("self.{name}.to_bits()"),
        Scalar::I32 => format!("self.{name} as u32"),
        Scalar::U32 => format!("self.{name}"),
        Scalar::Bool => format!("u32::from(self.{name})"),
    }
}

/// A Rust struct whose members have the names of shader constants; each block that matches it is converted from it.
struct Source {
    /// Path in `backend::vulkan::kernels`.
    path: &'static str,
    /// Its members.
    members: &'static str,
    /// The folder of the shaders whose blocks have exactly these members; `None` for blocks that contain all of these
    /// and others.
    alone_in: Option<&'static str>,
}

/// A block is converted from the first source that matches.
const SOURCES: [Source; 6] = [
    Source { path: "elementwise::Elements", members: "rows_of rows columns rows_per_group", alone_in: None },
    Source { path: "rows::Rows", members: "rows_of rows columns", alone_in: None },
    Source { path: "rows::Held", members: "lanes quads held vector", alone_in: None },
    Source {
        path: "linear::Product",
        members: "rows_of rows n k column y_columns width",
        alone_in: Some("shaders/linear"),
    },
    Source {
        path: "linear::Tile",
        members: "tile_m tile_n tile_k whole subgroups rows columns vector vector_y bias residual activation",
        alone_in: Some("shaders/linear"),
    },
    Source {
        path: "attention::Blocks",
        members: "head_dim vector causal window bias block_q block_kv keys subgroups invocations",
        alone_in: Some("shaders/attention"),
    },
];

/// The conversion to a block, if there is a source for it.
fn conversion(kernel: &Kernel, block: &str, names: &[String]) -> Option<String> {
    let known = |source: &Source, name: &String| source.members.split(' ').any(|member| member == name);
    let fits = |source: &&Source| match source.alone_in {
        None => source.members.split(' ').all(|member| names.iter().any(|name| name == member)),
        Some(folder) => {
            kernel.file.starts_with(folder) && !names.is_empty() && names.iter().all(|name| known(source, name))
        }
    };
    let source = SOURCES.iter().find(fits)?;
    let fields = names.iter().filter(|name| known(source, name)).map(|name| format!("{name}: from.{name}"));
    let fields: Vec<String> = fields.collect();
    let rest = if fields.len() < names.len() { ", ..Self::default()" } else { "" };
    let path = format!("crate::backend::vulkan::kernels::{}", source.path);
    Some(format!(
        "impl From<{path}> for {block} {{\nfn from(from: {path}) -> Self {{ {block} {{ {}{rest} }} }}\n}}",
        fields.join(", ")
    ))
}

/// Push blocks that already have a struct, by the module that contains it: blocks with equal members share one type.
type Blocks<'a> = Vec<(&'a [PushMember], String)>;

fn module<'a>(kernel: &'a Kernel, blocks: &mut Blocks<'a>) -> Result<String, String> {
    let constants = constants(kernel)?;
    let interface = &kernel.variants[0].interface;
    let mut out = String::new();
    let file = kernel.file.display();
    let name = kernel.name.replace('-', "_");
    let mut line = |text: String| {
        out += &text;
        out.push('\n');
    };
    line(format!("/// Interface of `{file}`.\npub mod {name} {{"));
    // A shader without constants does not use `Constant`.
    line("#[allow(unused_imports)]".into());
    line("use crate::backend::vulkan::kernel::{".into());
    line("Access::*, Binding, Constant, Kernel, PushMember, Scalar::*, Specialization, Variant};".into());

    line("/// The shader with its variants.".into());
    line(format!("pub static KERNEL: Kernel = Kernel {{ name: {:?}, variants: &[", kernel.name));
    for variant in &kernel.variants {
        line(variant_row(kernel, variant)?);
    }
    line("] };".into());

    match blocks.iter().find(|(push, _)| *push == interface.push) {
        Some((_, module)) => line(format!("pub use super::{module}::Push;")),
        None => {
            line("/// The push-constant block.".into());
            line("#[repr(C)]".into());
            line("#[derive(Debug, Clone, Copy, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]".into());
            line("pub struct Push {".into());
            for (place, member) in interface.push.iter().enumerate() {
                let (rust, _) = value(member.scalar, 0);
                line(format!("/// Byte {}.\npub {}: {rust},", 4 * place, member.name));
            }
            line("}".into());
            let names: Vec<String> = interface.push.iter().map(|member| member.name.clone()).collect();
            conversion(kernel, "Push", &names).into_iter().for_each(&mut line);
            blocks.push((&interface.push, name));
        }
    }

    line("/// The specialization constants of all variants.\n#[derive(Debug, Clone, Copy, PartialEq)]".into());
    line("pub struct Constants {".into());
    for constant in &constants {
        let (rust, _) = value(constant.scalar, 0);
        line(format!("/// Constant {}.\npub {}: {rust},", constant.id, constant.name.to_lowercase()));
    }
    line("}\nimpl Default for Constants {\nfn default() -> Self {\nConstants {".into());
    for constant in &constants {
        line(format!("{}: {},", constant.name.to_lowercase(), value(constant.scalar, constant.default).1));
    }
    line("}\n}\n}".into());
    let names: Vec<String> = constants.iter().map(|constant| constant.name.to_lowercase()).collect();
    conversion(kernel, "Constants", &names).into_iter().for_each(&mut line);
    line("impl Specialization for Constants {\ntype Push = Push;".into());
    line("const KERNEL: &'static Kernel = &KERNEL;".into());
    line("fn values(&self, variant: &Variant) -> Vec<u32> {".into());
    line("variant.constants.iter().map(|constant| match constant.id {".into());
    for constant in &constants {
        line(format!("{} => {},", constant.id, bits(constant)));
    }
    line("_ => constant.default,\n}).collect()\n}\n}\n}".into());
    Ok(out)
}

fn variant_row(kernel: &Kernel, variant: &Variant) -> Result<String, String> {
    let interface = &variant.interface;
    let mut out = String::new();
    let feature = |name: &String| {
        Feature::named(name)
            .map(|f| format!("crate::backend::vulkan::capabilities::Feature::{f:?}"))
            .ok_or_else(|| format!("unknown feature {name:?}"))
    };
    let needs: Vec<String> = variant.row.needs.iter().map(feature).collect::<Result<_, _>>()?;
    let lower = |c: &Constant| Constant { name: c.name.to_lowercase(), ..c.clone() };
    let constants: Vec<Constant> = interface.constants.iter().map(lower).collect();
    writeln!(out, "Variant {{ name: {:?}, needs: &[{}],", variant.row.name, needs.join(", ")).expect("memory");
    let stored = match variant.row.stored.as_str() {
        "float32" => "F32",
        "float16" => "F16",
        "bfloat16" => "Bf16",
        other => return Err(format!("unknown element type {other:?}")),
    };
    writeln!(out, "stored: crate::dtype::DType::{stored},").expect("memory");
    let file = format!("/{}", kernel.file.display());
    writeln!(out, "source: include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {file:?})),").expect("memory");
    let defines: Vec<_> = variant.row.defines.iter().collect();
    writeln!(out, "defines: &{defines:?},").expect("memory");
    // The names of variants and fields, as `Debug` writes them, are Rust's.
    writeln!(out, "bindings: &{:?},", interface.bindings).expect("memory");
    writeln!(out, "push_bytes: {},", 4 * interface.push.len()).expect("memory");
    writeln!(out, "push: &{:?}, constants: &{constants:?},", interface.push).expect("memory");
    writeln!(out, "local_size: {:?}, shared_bytes: {},", interface.local_size, interface.shared_bytes).expect("memory");
    let (words, file) = (variant.spirv.len(), format!("/{}", spirv_file(kernel, variant)));
    writeln!(out, "spirv: &bytemuck::must_cast::<[u8; {}], [u32; {words}]>(", 4 * words).expect("memory");
    writeln!(out, "*include_bytes!(concat!(env!(\"OUT_DIR\"), {file:?}))) }},").expect("memory");
    Ok(out)
}

/// The file of a variant's module, beside `kernels.rs`.
pub fn spirv_file(kernel: &Kernel, variant: &Variant) -> String {
    format!("{}.{}.spv", kernel.name, variant.row.name)
}
