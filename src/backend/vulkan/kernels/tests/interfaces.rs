//! The interfaces of all compiled shaders.

use super::super::super::generated;
use super::super::super::kernel::{Access, Variant};
use super::super::super::lowering::operand_of;
use super::*;
use crate::backend::vulkan::kernel::Kernel;
use crate::ops::signature::with_all_operands;

/// Shaders for which all sizes are known at recording, or that no batch uses.
const UNCOUNTED: [&str; 18] = [
    "attention-backward",
    "attention-backward-keys",
    "attention-backward-matrix",
    "attention-backward-matrix-keys",
    "attention-backward-values",
    "attention-bias",
    "attention-mask",
    "attention-output",
    "cast",
    "half-packing",
    "layer-norm-columns",
    "matmul",
    "matmul-matrix",
    "matmul-split",
    "matrix-layout",
    "reduce",
    "reduce-quads",
    "rope",
];

/// Shaders without a variant for some devices: those on matrix cores.
const OPTIONAL: [&str; 18] = [
    "attention-backward-matrix",
    "attention-backward-matrix-keys",
    "attention-matrix",
    "attention-split",
    "expert-linear-matrix",
    "expert-linear-split",
    "gated-linear-matrix",
    "gated-linear-split",
    "integer-linear-matrix",
    "layer-norm-linear-matrix",
    "layer-norm-linear-split",
    "linear-matrix",
    "linear-split",
    "matmul-matrix",
    "matmul-split",
    "matrix-layout",
    "quantized-linear-lanes",
    "quantized-linear-matrix",
];

/// Shaders that probe a device when it is opened, for no op.
const QUESTIONS: [&str; 2] = ["half-packing", "matrix-layout"];

/// Bindings not named after an operand: lowering provides their ranges.
const GIVEN: [(&str, &[&str]); 6] = [
    ("attention_backward", &["query_rows", "key_rows", "query_places"]),
    ("embedding_sum", &["index_0", "table_0", "index_1", "table_1", "index_2", "table_2"]),
    // A slice of the gate's rows.
    ("gated_linear", &["weight"]),
    // Scratch memory.
    ("layer_norm_linear", &["moments", "columns"]),
    ("layer_norm_weight_backward", &["moments", "partial"]),
    ("route", &["chosen", "counts_of_blocks"]),
];

/// Scratch memory that kernels write under names of its own.
const SCRATCH: &[&str] = &["chosen", "counts_of_blocks", "partial", "query_rows", "key_rows", "query_places"];

/// The op of a kernel, with all operands.
fn op_of(kernel: &Kernel) -> Op {
    let parts = ["layer-norm-moments", "layer-norm-columns"];
    let is = |name: &&&str| kernel.name == **name || kernel.name.starts_with(&format!("{name}-"));
    let names: Vec<String> = Op::NAMES.iter().map(|name| name.replace('_', "-")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let longest = names.iter().filter(is).max_by_key(|name| name.len()).copied();
    let name = if parts.contains(&kernel.name) { Some("layer-norm-linear") } else { longest };
    let name = name.unwrap_or_else(|| panic!("{} belongs to no op", kernel.name)).replace('-', "_");
    with_all_operands(&name)
}

#[test]
fn every_binding_is_called_as_what_is_bound_to_it() {
    for kernel in generated::ALL.iter().filter(|kernel| !QUESTIONS.contains(&kernel.name)) {
        let op = op_of(kernel);
        let given = GIVEN.iter().find(|(name, _)| *name == op.name()).map_or(&[][..], |(_, names)| names);
        for binding in kernel.variants[0].bindings {
            let bound = binding.name == "counts"
                || op.results().iter().any(|result| result.name == binding.name)
                || given.contains(&binding.name)
                || operand_of(&op, binding.name).is_some();
            assert!(bound, "{}: {} is no operand of {}", kernel.name, binding.name, op.name());
        }
        for name in given.iter().filter(|_| kernel.name.replace('-', "_") == op.name()) {
            let read = |kernel: &&&Kernel| {
                !QUESTIONS.contains(&kernel.name)
                    && op_of(kernel).name() == op.name()
                    && kernel.variants[0].bindings.iter().any(|binding| binding.name == *name)
            };
            assert!(generated::ALL.iter().any(|kernel| read(&kernel)), "nothing binds {name} of {}", op.name());
        }
    }
}

#[test]
fn every_variant_keeps_to_the_floor() {
    let floor = Capabilities::floor();
    for kernel in generated::ALL {
        let least = kernel.variants.last().unwrap();
        assert_eq!(least.needs.is_empty(), !OPTIONAL.contains(&kernel.name), "{}", kernel.name);
        for variant in kernel.variants {
            let name = variant.name;
            assert!(variant.shared_bytes <= floor.shared_memory, "{name}: {} bytes shared", variant.shared_bytes);
            assert!(variant.local_size.iter().product::<u32>() <= floor.invocations, "{name}");
            assert!(variant.push_bytes <= floor.push_constants, "{name}");
            assert!(variant.bindings.len() <= floor.storage_buffers as usize, "{name}");
            let uncounted = UNCOUNTED.contains(&kernel.name) || kernel.name.starts_with("attention-output-");
            assert_eq!(variant.bindings[0].name == "counts", !uncounted, "{name}");
            let bindings = variant.bindings.iter();
            let writes: Vec<&str> = bindings.filter(|b| b.access != Access::Read).map(|b| b.name).collect();
            // A kernel of an op with several dispatches writes one of its results.
            let result = |name: &&str| {
                SCRATCH.contains(name) || op_of(kernel).results().iter().any(|result| result.name == *name)
            };
            let expected: Vec<&str> = match QUESTIONS.contains(&kernel.name) {
                true => vec!["y"],
                false => writes.iter().copied().filter(result).collect(),
            };
            assert!(!writes.is_empty(), "{name}");
            assert_eq!(writes, expected, "{name} writes its results and scratch memory alone");
            let allowed = allowed(kernel, variant);
            let found = capabilities_of(&variant.spirv);
            assert!(found.iter().all(|c| allowed.contains(c)), "{name}: {found:?}");
        }
    }
}

/// Values that a module may declare with OpCapability (17): Shader (1), and 64-bit, 16-bit, 8-bit or float features
/// only on matrix cores, which a device is queried for by name: Float16 (9), the Vulkan memory model (5345),
/// cooperative matrices (6022), of bfloat16 (5116, 5118), and in a subgroup (61) votes (62), arithmetic (63) and shuffles (65), of which builds
/// for software devices use the last; products of packed bytes (6018, 6019).
fn allowed(kernel: &Kernel, variant: &Variant) -> &'static [u32] {
    match variant.needs {
        [] if kernel.name.ends_with("-shuffle") => &[1, 61, 65],
        [] => &[1],
        [Feature::IntegerDotProduct] => &[1, 6018, 6019],
        needs if needs.contains(&Feature::Int8) => &[1, 9, 39, 61, 5345, 6018, 6019, 6022],
        _ => &[1, 9, 61, 62, 63, 65, 5116, 5118, 5345, 6022],
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
