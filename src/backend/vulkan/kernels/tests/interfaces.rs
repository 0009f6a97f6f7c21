//! The interfaces of all compiled shaders.

use std::collections::BTreeSet;

use super::super::super::generated;
use super::super::super::kernel::{Access, Variant};
use super::super::super::lowering::operand_of;
use super::*;
use crate::backend::vulkan::kernel::Kernel;
use crate::numerics::Numerics;

/// Every form of the op of a kernel; none of a kernel that probes a device when it is opened.
fn forms_of(kernel: &Kernel) -> Vec<Op> {
    let parts = ["layer-norm-moments", "layer-norm-columns"];
    let is = |name: &&&str| kernel.name == **name || kernel.name.starts_with(&format!("{name}-"));
    let names: Vec<String> = Op::NAMES.iter().map(|name| name.replace('_', "-")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let longest = names.iter().filter(is).max_by_key(|name| name.len()).copied();
    let name = if parts.contains(&kernel.name) { Some("layer-norm-linear") } else { longest };
    let name = name.map(|name| name.replace('-', "_"));
    let forms = Op::examples().into_iter().map(|(op, _)| op).filter(|op| Some(op.name()) == name.as_deref());
    forms.collect()
}

/// Memory that the lowering binds by name: of products whose results are the same on every device, and of heads that are split.
const BY_NAME: [&str; 7] = ["digits", "exponents", "integers", "row_exponents", "queries", "keys", "values"];

#[test]
fn every_binding_is_called_as_what_is_bound_to_it() {
    let mut bound = BTreeSet::new();
    for kernel in generated::ALL {
        let forms = forms_of(kernel);
        for binding in kernel.variants[0].bindings {
            let is = |op: &Op| {
                op.results().iter().any(|result| result.name == binding.name)
                    || op.signature().scratch.contains(&binding.name)
                    || operand_of(op, binding.name).is_some()
            };
            let known = binding.name == "counts" || BY_NAME.contains(&binding.name) || forms.iter().any(is);
            assert!(known || forms.is_empty(), "{}: {} is no operand of its op", kernel.name, binding.name);
            bound.extend(forms.iter().map(|op| (op.name(), binding.name)));
        }
    }
    for (op, _) in Op::examples() {
        for name in op.signature().scratch {
            // That of `matmul` is bound as the result.
            assert!(bound.contains(&(op.name(), *name)) || *name == "sums", "nothing binds {name} of {}", op.name());
        }
    }
}

#[test]
fn every_variant_keeps_to_the_floor() {
    let floor = Capabilities::floor();
    for kernel in generated::ALL {
        let forms = forms_of(kernel);
        let serves = |other: &&&Kernel| {
            let least = other.variants.last().unwrap();
            let everywhere = least.needs.is_empty() && least.when.is_empty();
            everywhere && forms_of(other).first().map(Op::name) == forms.first().map(Op::name)
        };
        assert!(generated::ALL.iter().any(|other| serves(&other)), "{}: some devices have no kernel", kernel.name);
        for variant in kernel.variants {
            let name = variant.name;
            // Of exact products and of some of attention on matrix cores the lowering asks whether the device has as much.
            let asking = ["attention-matrix-distances", "attention-split-prepared"];
            let large = variant.numerics == Numerics::Everywhere || asking.contains(&kernel.name);
            let asked = large && variant.matrix().is_some();
            let shared = variant.shared_bytes;
            assert!(shared <= floor.shared_memory || asked, "{name}: {shared} bytes shared");
            assert!(variant.local_size.iter().product::<u32>() <= floor.invocations || asked, "{name}");
            assert!(variant.push_bytes <= floor.push_constants, "{name}");
            assert!(variant.bindings.len() <= floor.storage_buffers as usize || asked, "{name}");
            let place = variant.bindings.iter().position(|binding| binding.name == "counts");
            let counted = variant.push.iter().any(|member| member.name == "rows_of");
            assert!(place == Some(0) || place.is_none() && !counted, "{name} reads no counts first");
            let bindings = variant.bindings.iter();
            let writes: Vec<&str> = bindings.filter(|b| b.access != Access::Read).map(|b| b.name).collect();
            // A kernel of an op with several dispatches writes one of its results.
            let of = |op: &Op, name: &str| {
                op.signature().scratch.contains(&name) || op.results().iter().any(|result| result.name == name)
            };
            let result = |name: &&str| match forms.is_empty() {
                true => *name == "y" || BY_NAME.contains(name),
                false => forms.iter().any(|op| of(op, name)),
            };
            let expected: Vec<&str> = writes.iter().copied().filter(result).collect();
            assert!(!writes.is_empty(), "{name}");
            assert_eq!(writes, expected, "{name} writes its results and scratch memory alone");
            let allowed = allowed(kernel, variant);
            let found = capabilities_of(&variant.spirv);
            assert!(found.iter().all(|c| allowed.contains(c)), "{name}: {found:?}");
        }
    }
}

/// Values that a module may declare with OpCapability (17): Shader (1), and 64-bit, 16-bit, 8-bit or float features
/// only on matrix cores, which a device is queried for by name: Float16 (9), storage of 16 bits (4433), the Vulkan memory model (5345),
/// cooperative matrices (6022), of bfloat16 (5116, 5118), and in a subgroup (61) votes (62), arithmetic (63) and shuffles (65), of which builds
/// for software devices use the last; products of packed bytes (6018, 6019).
fn allowed(kernel: &Kernel, variant: &Variant) -> &'static [u32] {
    match variant.needs {
        [] if kernel.name.ends_with("-shuffle") => &[1, 61, 65],
        [] => &[1],
        [Feature::IntegerDotProduct] => &[1, 6018, 6019],
        needs if needs.contains(&Feature::Int64) => &[1, 11, 39, 61, 65, 5345, 6022],
        needs if needs.contains(&Feature::Int8) => &[1, 9, 39, 61, 4433, 5345, 6018, 6019, 6022],
        _ => &[1, 9, 61, 62, 63, 65, 4433, 5116, 5118, 5345, 6022],
    }
}

#[test]
fn reflection_gives_names_defaults_and_sizes() {
    let variant = &generated::linear::KERNEL.variants[0];
    let names: Vec<&str> = variant.bindings.iter().map(|b| b.name).collect();
    assert_eq!(names, ["counts", "x", "weight", "bias", "residual", "y"]);
    let accesses: Vec<Access> = variant.bindings.iter().map(|b| b.access).collect();
    assert_eq!(accesses, [Access::Read, Access::Read, Access::Read, Access::Read, Access::Read, Access::Write]);
    let constants: Vec<_> = variant.constants.iter().map(|c| (c.name, c.id, c.default)).collect();
    assert_eq!(
        constants[3..],
        [
            ("residual", 3, 0),
            ("tile_m", 4, 128),
            ("tile_n", 5, 128),
            ("tile_k", 6, 16),
            ("vector_y", 7, 0),
            ("whole", 8, 0)
        ]
    );
    assert_eq!(variant.local_size, [256, 1, 1]);
    // The arrays' sizes are computed from constants: two arrays of 128 rows of 5 quads.
    assert_eq!(variant.shared_bytes, 2 * 128 * 5 * 16);
    assert_eq!(generated::embedding_sum::KERNEL.variants[0].bindings[7].access, Access::ReadWrite);
    assert_eq!(variant.push_bytes as usize, size_of::<generated::linear::Push>());
}

/// Operands of the module's OpCapability instructions.
fn capabilities_of(spirv: &[u32]) -> Vec<u32> {
    let (mut at, mut found) = (5, Vec::new());
    while at < spirv.len() && spirv[at] & 0xffff == 17 {
        found.push(spirv[at + 1]);
        at += (spirv[at] >> 16) as usize;
    }
    found
}
