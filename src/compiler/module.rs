//! Analysis and rewriting of SPIR-V modules: required device features, and exact float arithmetic.

use std::collections::HashSet;

use rspirv::binary::Assemble;
use rspirv::dr::{Instruction, Operand};
use rspirv::spirv::{Capability, Decoration, Op};

use super::matrices;
use crate::backend::vulkan::{Feature, spirv};

/// The features of [`Feature::ALL`] that a module requires.
///
/// # Errors
/// What it requires that grilly never enables on a device.
pub(super) fn needs(words: &[u32]) -> Result<Vec<Feature>, String> {
    let module = spirv::load(words)?;
    let mut needs = Vec::new();
    for instruction in &module.capabilities {
        let Some(Operand::Capability(capability)) = instruction.operands.first() else { continue };
        let feature = match capability {
            Capability::Shader | Capability::Matrix | Capability::GroupNonUniform | Capability::VulkanMemoryModel => {
                continue;
            }
            Capability::GroupNonUniformArithmetic => Feature::SubgroupArithmetic,
            Capability::GroupNonUniformShuffle => Feature::SubgroupShuffle,
            Capability::GroupNonUniformVote => Feature::SubgroupVote,
            Capability::Float16 => Feature::Float16,
            Capability::StorageBuffer16BitAccess => Feature::Storage16,
            Capability::Int8 => Feature::Int8,
            Capability::StorageBuffer8BitAccess => Feature::Storage8,
            Capability::DotProduct | Capability::DotProductInput4x8Bit | Capability::DotProductInput4x8BitPacked => {
                Feature::IntegerDotProduct
            }
            Capability::CooperativeMatrixKHR => {
                let named = matrices::features(&module)?;
                // Of sizes that are computed nothing is known.
                needs.extend(if named.is_empty() { vec![Feature::MatrixF16] } else { named });
                continue;
            }
            Capability::PhysicalStorageBufferAddresses => Feature::BufferDeviceAddress,
            Capability::Float64 => Feature::Float64,
            Capability::Int64 => Feature::Int64,
            Capability::Int16 => Feature::Int16,
            other => return Err(format!("the SPIR-V capability {other:?}")),
        };
        if !needs.contains(&feature) {
            needs.push(feature);
        }
    }
    Ok(needs)
}

/// Whether a module calls `debugPrintfEXT`.
pub(super) fn prints(words: &[u32]) -> bool {
    spirv::load(words).is_ok_and(|module| {
        let name = |instruction: &Instruction| match instruction.operands.first() {
            Some(Operand::LiteralString(name)) => name.starts_with("NonSemantic.DebugPrintf"),
            _ => false,
        };
        module.ext_inst_imports.iter().any(name)
    })
}

/// Float arithmetic that a driver may contract with neighbouring instructions.
fn is_float_arithmetic(op: Op) -> bool {
    matches!(
        op,
        Op::FNegate
            | Op::FAdd
            | Op::FSub
            | Op::FMul
            | Op::FDiv
            | Op::FRem
            | Op::FMod
            | Op::VectorTimesScalar
            | Op::MatrixTimesScalar
            | Op::VectorTimesMatrix
            | Op::MatrixTimesVector
            | Op::MatrixTimesMatrix
            | Op::OuterProduct
            | Op::Dot
    )
}

/// Decorates the result of every float arithmetic instruction with `NoContraction`.
///
/// # Errors
/// When the module cannot be parsed.
pub(super) fn without_contraction(words: &[u32]) -> Result<Vec<u32>, String> {
    let mut module = rspirv::dr::load_words(words).map_err(|e| format!("cannot parse the SPIR-V: {e}"))?;
    let decorated: HashSet<u32> = (module.annotations.iter())
        .filter_map(|a| match a.operands.as_slice() {
            [Operand::IdRef(id), Operand::Decoration(Decoration::NoContraction), ..] => Some(*id),
            _ => None,
        })
        .collect();
    let results: Vec<u32> = (module.functions.iter().flat_map(|f| &f.blocks).flat_map(|b| &b.instructions))
        .filter(|i| is_float_arithmetic(i.class.opcode))
        .filter_map(|i| i.result_id)
        .filter(|id| !decorated.contains(id))
        .collect();
    for id in results {
        let operands = vec![Operand::IdRef(id), Operand::Decoration(Decoration::NoContraction)];
        module.annotations.push(Instruction::new(Op::Decorate, None, None, operands));
    }
    Ok(module.assemble())
}

/// Float arithmetic instructions of a module, and how many of them are decorated `NoContraction`.
#[cfg(test)]
pub(super) fn contraction_counts(words: &[u32]) -> (usize, usize) {
    let module = rspirv::dr::load_words(words).unwrap();
    let all = module.functions.iter().flat_map(|f| &f.blocks).flat_map(|b| &b.instructions);
    let arithmetic = all.filter(|i| is_float_arithmetic(i.class.opcode)).count();
    let decorated = module
        .annotations
        .iter()
        .filter(|a| a.operands.get(1) == Some(&Operand::Decoration(Decoration::NoContraction)));
    (arithmetic, decorated.count())
}
