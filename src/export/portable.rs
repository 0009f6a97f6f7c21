//! SPIR-V of one build with its constants baked in, as other languages can express it.

use std::collections::{HashMap, HashSet};

use rspirv::binary::Assemble;
use rspirv::dr::{Instruction, Operand};
use rspirv::spirv::{Decoration, Op, Word};

use super::matrices::Declared;
use super::rewriter::Rewriter;
use crate::backend::vulkan::spirv_tools;

/// The scope of a barrier.
const WORKGROUP: u32 = 2;

/// What is rewritten because a language lacks it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// A binding may be declared only once.
    pub one_view: bool,
    /// Constants may be neither infinite nor NaN.
    pub finite: bool,
    /// No integer sum has two results, and nothing tests for infinity or NaN.
    pub simple: bool,
    /// No integer product has two results.
    pub short: bool,
    /// No matrices of a subgroup.
    pub no_matrices: bool,
}

/// Replaces specialization constants by these values, by `constant_id`, sets the workgroup size, and removes what is
/// then not needed.
///
/// # Errors
/// When SPIRV-Tools reject the module.
pub(super) fn specialise(words: &[u32], values: &HashMap<u32, u32>, size: [u32; 3]) -> Result<Vec<u32>, String> {
    let mut rewriter = Rewriter::new(words)?;
    rewriter.set_local_size(size);
    let is_id = |i: &Instruction| i.operands.get(1) == Some(&Operand::Decoration(Decoration::SpecId));
    let module = &mut rewriter.module;
    let numbered = |i: &Instruction| match i.operands[..] {
        [Operand::IdRef(id), _, Operand::LiteralBit32(number)] if is_id(i) => Some((id, number)),
        _ => None,
    };
    let ids: HashMap<Word, u32> = module.annotations.iter().filter_map(numbered).collect();
    module.annotations.retain(|i| !is_id(i));
    for instruction in &mut module.types_global_values {
        let value = instruction.result_id.and_then(|id| values.get(ids.get(&id)?).copied());
        let (op, operands) = match instruction.class.opcode {
            Op::SpecConstant => {
                let given = instruction.operands.clone();
                (Op::Constant, value.map_or(given, |bits| vec![Operand::LiteralBit32(bits)]))
            }
            op @ (Op::SpecConstantTrue | Op::SpecConstantFalse) => {
                let on = value.map_or(op == Op::SpecConstantTrue, |bits| bits != 0);
                (if on { Op::ConstantTrue } else { Op::ConstantFalse }, vec![])
            }
            _ => continue,
        };
        *instruction = Instruction::new(op, instruction.result_type, instruction.result_id, operands);
    }
    let passes = [
        c"--fold-spec-const-op-composite",
        c"--eliminate-dead-branches",
        c"--eliminate-dead-functions",
        c"--eliminate-dead-variables",
        c"--eliminate-dead-const",
    ];
    spirv_tools::passes(&rewriter.module.assemble(), &passes)
}

/// Rewrites a module for other languages: parameters in a uniform block at binding `parameters`, bindings that state
/// whether they are only read, names as in GLSL; returns it with its number of barriers and the functions that it only declares.
///
/// # Errors
/// What the rules do not cover.
pub(super) fn portable(
    words: &[u32],
    read_only: &HashSet<u32>,
    parameters: u32,
    rules: Rules,
) -> Result<(Vec<u32>, usize, Vec<Declared>), String> {
    let mut rewriter = Rewriter::new(words)?;
    rewriter.order_values();
    rewriter.simplify_names();
    rewriter.move_parameters(parameters);
    rewriter.set_access(read_only);
    if rules.one_view {
        rewriter.join_views()?;
    }
    if rules.finite {
        rewriter.hide_infinite();
    }
    if rules.short {
        rewriter.shorten()?;
    }
    if rules.simple {
        rewriter.simplify()?;
    }
    let declared = if rules.no_matrices { rewriter.expand_matrices()? } else { Vec::new() };
    let instructions = rewriter.module.functions.iter().flat_map(|f| &f.blocks).flat_map(|b| &b.instructions);
    let of_workgroup = |i: &&Instruction| {
        let scope = i.operands.first().and_then(Operand::id_ref_any);
        i.class.opcode == Op::ControlBarrier && scope.and_then(|id| rewriter.number(id)) == Some(WORKGROUP)
    };
    let barriers = instructions.filter(of_workgroup).count();
    let words = rewriter.finish();
    spirv_tools::validate(&words).map(|()| (words, barriers, declared))
}
