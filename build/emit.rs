//! Generates Rust from interfaces: one module per kernel, with structs whose fields have the shader's names.

use std::collections::BTreeMap;
use std::fmt::Debug;

use super::capabilities::Feature;
use super::interface::{Constant, Interface, PushMember, Scalar};
use super::manifest;
use super::sources::{Source, conversion, shared, shared_struct};

/// A shader with its compiled variants.
pub type Kernel = manifest::Kernel<Variant>;

/// One build of a shader.
#[derive(Clone)]
pub struct Variant {
    /// The variant's row in the manifest.
    pub row: manifest::Variant,
    /// The module.
    pub spirv: Vec<u32>,
    /// Words of the modules before it.
    pub first: usize,
    /// Its interface.
    pub interface: Interface,
}

/// The complete text of `kernels.rs`.
pub fn emit(kernels: &[Kernel], sources: &[Source]) -> Result<String, String> {
    let mut blocks = Vec::new();
    let modules = all(kernels.iter().map(|kernel| {
        module(kernel, sources, &mut blocks).map_err(|fault| format!("{}: error: {fault}", kernel.file.display()))
    }))?;
    let structs: String = shared(kernels)?.iter().map(shared_struct).collect();
    let names = join(kernels, |kernel| format!("&{}::KERNEL, ", kernel.name.replace('-', "_")));
    let kind = "&[&crate::backend::vulkan::kernel::Kernel]";
    Ok(structs + &modules.concat() + &format!("/// Every kernel, by name.\npub static ALL: {kind} = &[{names}];\n"))
}

/// All results, or all errors, one per line.
pub fn all<T>(results: impl Iterator<Item = Result<T, String>>) -> Result<Vec<T>, String> {
    let (mut found, mut errors) = (Vec::new(), String::new());
    for result in results {
        match result {
            Ok(item) => found.push(item),
            Err(error) => errors += &format!("{}\n", error.trim_end()),
        }
    }
    if errors.is_empty() { Ok(found) } else { Err(errors) }
}

/// The texts of the included files, by name, since users' shaders may include them, too.
pub fn includes(files: &BTreeMap<String, (String, String)>) -> String {
    let files: Vec<_> = files.iter().map(|(name, (_, text))| (name, text)).collect();
    format!("/// Name and text of each included file.\npub static INCLUDES: &[(&str, &str)] = &{files:?};\n")
}

/// Checks that the variants' interfaces differ only in constants and sizes; returns all constants set by callers.
pub fn constants(kernel: &Kernel) -> Result<Vec<Constant>, String> {
    let first = &kernel.variants[0];
    let mut constants = first.interface.constants.clone();
    for variant in &kernel.variants[1..] {
        let differ = |what: &str, a: &dyn Debug, b: &dyn Debug| {
            Err(format!("variants {} and {} differ in {what}: {a:?} and {b:?}", first.row.name, variant.row.name))
        };
        let (a, b) = (&first.interface, &variant.interface);
        if a.bindings != b.bindings {
            return differ("bindings", &a.bindings, &b.bindings);
        }
        if a.push != b.push {
            return differ("push constants", &a.push, &b.push);
        }
        for constant in &b.constants {
            match constants.iter().find(|c| c.name == constant.name) {
                Some(known) if known != constant => return differ("a constant", known, constant),
                Some(_) => {}
                None => constants.push(constant.clone()),
            }
        }
    }
    constants = lower(&constants);
    // A constant named after a feature gets its value from the device.
    constants.retain(|c| Feature::named(&c.name).is_none());
    constants.sort_by_key(|c| c.id);
    match constants.windows(2).find(|pair| pair[0].id == pair[1].id) {
        Some([one, other]) => Err(format!("constant {} is called {} and {}", one.id, one.name, other.name)),
        _ => Ok(constants),
    }
}

/// The constants with their names in lower case, as in Rust.
fn lower(constants: &[Constant]) -> Vec<Constant> {
    constants.iter().map(|c| Constant { name: c.name.to_lowercase(), ..c.clone() }).collect()
}

/// The texts of all items, one after the other.
fn join<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect()
}

/// The Rust type of a 32-bit scalar, the literal of its bits, where a bool is 0 or 1, and the expression for the bits of
/// the field `name`.
pub fn rust(scalar: Scalar, bits: u32, name: &str) -> (&'static str, String, String) {
    match scalar {
        Scalar::F32 => ("f32", format!("f32::from_bits({bits})"), format!("self.{name}.to_bits()")),
        Scalar::I32 => ("i32", format!("{}", bits as i32), format!("self.{name} as u32")),
        Scalar::U32 => ("u32", format!("{bits}"), format!("self.{name}")),
        Scalar::Bool => ("bool", format!("{}", bits != 0), format!("u32::from(self.{name})")),
    }
}

/// Push blocks that already have a struct, with what they are made of, by the module that contains it: equal ones share
/// one type.
type Blocks<'a> = Vec<((&'a [PushMember], &'a Option<String>), String)>;

fn module<'a>(kernel: &'a Kernel, sources: &[Source], blocks: &mut Blocks<'a>) -> Result<String, String> {
    let constants = constants(kernel)?;
    let members = &kernel.variants[0].interface.push;
    let (file, name) = (kernel.file.display(), kernel.name.replace('-', "_"));
    let variants = kernel.variants.iter().map(|variant| variant_row(kernel, variant)).collect::<Result<String, _>>()?;
    let own = (&members[..], &kernel.made_of.push);
    let push = match blocks.iter().find(|(push, _)| *push == own) {
        Some((_, module)) => format!("pub use super::{module}::Push;"),
        None => {
            blocks.push((own, name.clone()));
            push_block(kernel, sources, members)
        }
    };
    let fields = join(&constants, |Constant { name, id, scalar, default }| {
        format!("/// Constant {id}.\npub {name}: {},\n", rust(*scalar, *default, name).0)
    });
    let defaults = join(&constants, |c| format!("{}: {},\n", c.name, rust(c.scalar, c.default, &c.name).1));
    let bits = join(&constants, |c| format!("{} => {},\n", c.id, rust(c.scalar, c.default, &c.name).2));
    let names: Vec<&String> = constants.iter().map(|constant| &constant.name).collect();
    let conversion = conversion(sources, &kernel.made_of.constants, "Constants", &names);
    Ok(format!(
        "/// Interface of `{file}`.
pub mod {name} {{
    // A shader without constants does not use `Constant`.
    #[allow(unused_imports)]
    use crate::backend::vulkan::kernel::{{
        Access::*, Binding, Constant, Kernel, PushMember, Scalar::*, Specialization, Variant,
    }};
    /// The shader with its variants.
    pub static KERNEL: Kernel = Kernel {{ name: {:?}, variants: &[{variants}] }};
    {push}
    /// The specialization constants of all variants.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct Constants {{ {fields} }}
    impl Default for Constants {{ fn default() -> Self {{ Constants {{ {defaults} }} }} }}
    {conversion}
    impl Specialization for Constants {{
        type Push = Push;
        const KERNEL: &'static Kernel = &KERNEL;
        fn values(&self, variant: &Variant) -> Vec<u32> {{
            variant.constants.iter().map(|constant| match constant.id {{ {bits} _ => constant.default }}).collect()
        }}
    }}
}}
",
        kernel.name
    ))
}

fn push_block(kernel: &Kernel, sources: &[Source], members: &[PushMember]) -> String {
    let field = |(place, PushMember { name, scalar }): (usize, &PushMember)| {
        format!("/// Byte {}.\npub {name}: {},\n", 4 * place, rust(*scalar, 0, name).0)
    };
    let fields: String = members.iter().enumerate().map(field).collect();
    let names: Vec<&String> = members.iter().map(|member| &member.name).collect();
    let conversion = conversion(sources, &kernel.made_of.push, "Push", &names);
    format!(
        "/// The push-constant block.
    #[repr(C)]
    #[derive(Debug, Clone, Copy, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {{ {fields} }}
    {conversion}"
    )
}

fn variant_row(kernel: &Kernel, variant: &Variant) -> Result<String, String> {
    let Variant { row, spirv, first, interface } = variant;
    let Interface { bindings, push, constants, local_size, shared_bytes } = interface;
    let feature = |name: &String| {
        let feature = Feature::named(name).ok_or_else(|| format!("unknown feature {name:?}"))?;
        Ok(format!("crate::backend::vulkan::capabilities::Feature::{feature:?}, "))
    };
    let needs = row.needs.iter().map(feature).collect::<Result<String, String>>()?;
    let stored = match row.stored.as_str() {
        "float32" => "F32",
        "float16" => "F16",
        "bfloat16" => "Bf16",
        other => return Err(format!("unknown element type {other:?}")),
    };
    let numerics = if row.numerics == manifest::NUMERICS[1] { "Everywhere" } else { "Run" };
    let source = format!("/{}", kernel.file.display());
    // The names of variants and fields, as `Debug` writes them, are Rust's.
    Ok(format!(
        "Variant {{
        name: {:?}, needs: &[{needs}], when: &{:?}, stored: crate::dtype::DType::{stored},
        numerics: crate::numerics::Numerics::{numerics},
        source: include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {source:?})), defines: &{:?},
        bindings: &{bindings:?}, push_bytes: {}, push: &{push:?}, constants: &{:?},
        local_size: {local_size:?}, shared_bytes: {shared_bytes},
        spirv: crate::backend::vulkan::Module::Packed({first}, {}),
    }},",
        row.name,
        row.when,
        row.defines.iter().collect::<Vec<_>>(),
        4 * push.len(),
        lower(constants),
        spirv.len()
    ))
}
