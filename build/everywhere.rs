//! Modules whose results have the same bits on every device: which instructions they may have, and the decoration that keeps a
//! compiler from fusing or reordering two of them.

use std::collections::{HashMap, HashSet};

use rspirv::binary::Assemble;
use rspirv::dr::{Instruction, Module, Operand};
use rspirv::spirv::{Capability, Decoration, Op, Word};

use super::spirv::load;

/// Arithmetic of floats, each decorated so that it stays a step of its own.
const ARITHMETIC: [Op; 4] = [Op::FAdd, Op::FSub, Op::FMul, Op::FNegate];

/// All else that functions may have: comparisons, selections and conversions, integers, memory and control. `SDot` is the exact sum
/// of products of integers, modulo 2^32.
#[rustfmt::skip]
const EXACT: [Op; 101] = [
    Op::FOrdEqual, Op::FOrdNotEqual, Op::FOrdLessThan, Op::FOrdGreaterThan, Op::FOrdLessThanEqual, Op::FOrdGreaterThanEqual,
    Op::FUnordEqual, Op::FUnordNotEqual, Op::FUnordLessThan, Op::FUnordGreaterThan, Op::FUnordLessThanEqual,
    Op::FUnordGreaterThanEqual, Op::Select, Op::ConvertFToU, Op::ConvertFToS, Op::ConvertSToF, Op::ConvertUToF, Op::Bitcast,
    Op::IAdd, Op::ISub, Op::IMul, Op::SNegate, Op::UDiv, Op::SDiv, Op::UMod, Op::SRem, Op::SMod, Op::IAddCarry,
    Op::ISubBorrow, Op::UMulExtended, Op::SMulExtended, Op::ShiftRightLogical, Op::ShiftRightArithmetic,
    Op::ShiftLeftLogical, Op::BitwiseOr, Op::BitwiseAnd, Op::BitwiseXor, Op::Not, Op::BitFieldInsert, Op::BitFieldSExtract,
    Op::BitFieldUExtract, Op::BitCount, Op::BitReverse, Op::IEqual, Op::INotEqual, Op::UGreaterThan, Op::SGreaterThan,
    Op::UGreaterThanEqual, Op::SGreaterThanEqual, Op::ULessThan, Op::SLessThan, Op::ULessThanEqual, Op::SLessThanEqual,
    Op::LogicalAnd, Op::LogicalOr, Op::LogicalNot, Op::LogicalEqual, Op::LogicalNotEqual, Op::Any, Op::All,
    Op::AtomicSMax, Op::AtomicUMax, Op::AtomicOr, Op::AtomicIAdd, Op::ControlBarrier, Op::MemoryBarrier,
    Op::Variable, Op::Load, Op::Store, Op::AccessChain, Op::ArrayLength, Op::CompositeExtract, Op::CompositeConstruct,
    Op::CompositeInsert, Op::VectorShuffle, Op::VectorExtractDynamic, Op::VectorInsertDynamic, Op::CopyObject,
    Op::CopyLogical, Op::Undef, Op::Phi, Op::FunctionParameter, Op::FunctionCall, Op::Label, Op::Branch,
    Op::BranchConditional, Op::Switch, Op::SelectionMerge, Op::LoopMerge, Op::Return, Op::ReturnValue, Op::Unreachable,
    Op::Nop, Op::SConvert, Op::UConvert, Op::CooperativeMatrixLoadKHR, Op::CooperativeMatrixStoreKHR,
    Op::CooperativeMatrixLengthKHR, Op::CooperativeMatrixMulAddKHR, Op::SDot, Op::GroupNonUniformShuffleXor,
];

/// What modules may ask of a device: integers of other widths and their dot products, numbers of other lanes, and matrices, whose
/// elements are checked.
const CAPABILITIES: [Capability; 9] = [
    Capability::Shader,
    Capability::Int8,
    Capability::Int64,
    Capability::DotProduct,
    Capability::DotProductInput4x8BitPacked,
    Capability::CooperativeMatrixKHR,
    Capability::VulkanMemoryModel,
    Capability::GroupNonUniform,
    Capability::GroupNonUniformShuffle,
];

/// What may have a matrix of floats as its result: its elements are given, or each is an integer, rounded as alone.
const MOVES: [Op; 9] = [
    Op::Load,
    Op::Variable,
    Op::CompositeConstruct,
    Op::CompositeInsert,
    Op::CooperativeMatrixLoadKHR,
    Op::ConvertSToF,
    Op::Undef,
    Op::CopyObject,
    Op::AccessChain,
];

/// Functions of GLSL.std.450, by number: round to even, truncate, absolute values, floor; smallest, largest and bounded
/// integers, lowest and highest bits.
const FUNCTIONS: [Word; 14] = [2, 3, 4, 5, 8, 38, 39, 41, 42, 44, 45, 73, 74, 75];

/// The module without names and functions that are never called, with every addition, subtraction, multiplication and negation
/// of floats decorated as `NoContraction`.
///
/// # Errors
/// The first instruction whose result may differ between devices.
pub fn everywhere(words: &[u32]) -> Result<Vec<u32>, String> {
    let mut module = load(words)?;
    module.debug_string_source.clear();
    module.debug_names.clear();
    module.debug_module_processed.clear();
    keep_called(&mut module)?;
    let refused = |what: String| Err(format!("{what} may differ between devices"));
    for capability in &module.capabilities {
        if !matches!(capability.operands[..], [Operand::Capability(own)] if CAPABILITIES.contains(&own)) {
            return refused(format!("{:?}", capability.operands));
        }
    }
    let types: HashMap<Word, &Instruction> =
        module.types_global_values.iter().filter_map(|own| Some((own.result_id?, own))).collect();
    // Of a matrix that of its elements.
    let is_float_matrix = |id: Option<Word>| {
        let of = |id: Word| types.get(&id).copied();
        let matrix = id.and_then(of).filter(|own| own.class.opcode == Op::TypeCooperativeMatrixKHR);
        let element = matrix.and_then(|own| own.operands.first()?.id_ref_any()).and_then(of);
        element.is_some_and(|own| own.class.opcode == Op::TypeFloat)
    };
    let mut kept = HashSet::new();
    for annotation in &module.annotations {
        match annotation.operands[..] {
            [_, Operand::Decoration(Decoration::RelaxedPrecision), ..] => return refused("RelaxedPrecision".into()),
            [Operand::IdRef(id), Operand::Decoration(Decoration::NoContraction)] => drop(kept.insert(id)),
            _ => {}
        }
    }
    for instruction in instructions(&module) {
        let Instruction { class, result_id, result_type, operands, .. } = &instruction;
        match (class.opcode, &operands[..]) {
            // Sums of matrices of integers are exact, of floats they have any order.
            (op, _) if is_float_matrix(*result_type) && !MOVES.contains(&op) => {
                return refused(format!("Op{op:?} of a matrix of floats"));
            }
            (op, _) if ARITHMETIC.contains(&op) => {
                let id = (*result_id).ok_or("arithmetic without a result")?;
                if kept.insert(id) {
                    let operands = vec![Operand::IdRef(id), Operand::Decoration(Decoration::NoContraction)];
                    module.annotations.push(Instruction::new(Op::Decorate, None, None, operands));
                }
            }
            (op, _) if EXACT.contains(&op) => {}
            (Op::ExtInst, [_, Operand::LiteralExtInstInteger(number), ..]) if FUNCTIONS.contains(number) => {}
            (Op::ExtInst, [_, Operand::LiteralExtInstInteger(number), ..]) => {
                return refused(format!("instruction {number} of GLSL.std.450"));
            }
            (op, _) => return refused(format!("Op{op:?}")),
        }
    }
    Ok(module.assemble())
}

/// All instructions of functions, in order.
fn instructions(module: &Module) -> Vec<Instruction> {
    let blocks = module.functions.iter().flat_map(|function| &function.blocks);
    blocks.flat_map(|block| &block.instructions).cloned().collect()
}

/// Drops functions that the entry point does not reach, decorations of their ids, and lines.
fn keep_called(module: &mut Module) -> Result<(), String> {
    let entry = module.entry_points.first().and_then(|entry| entry.operands.get(1));
    let Some(Operand::IdRef(entry)) = entry else { return Err("a module without an entry point".into()) };
    let (mut called, mut next) = (HashSet::new(), vec![*entry]);
    while let Some(id) = next.pop() {
        let own = module.functions.iter().find(|function| function.def_id() == Some(id));
        let blocks = own.into_iter().filter(|_| called.insert(id)).flat_map(|function| &function.blocks);
        for call in blocks.flat_map(|block| &block.instructions).filter(|i| i.class.opcode == Op::FunctionCall) {
            next.extend(call.operands.first().and_then(Operand::id_ref_any));
        }
    }
    module.functions.retain(|function| function.def_id().is_some_and(|id| called.contains(&id)));
    for block in module.functions.iter_mut().flat_map(|function| &mut function.blocks) {
        block.instructions.retain(|i| !matches!(i.class.opcode, Op::Line | Op::NoLine));
    }
    let functions = module.functions.iter();
    let parts = functions
        .flat_map(|f| f.def.iter().chain(&f.parameters).chain(f.blocks.iter().filter_map(|b| b.label.as_ref())));
    let mut ids: HashSet<Word> = parts.filter_map(|i| i.result_id).collect();
    ids.extend(instructions(module).iter().filter_map(|i| i.result_id));
    ids.extend(module.types_global_values.iter().filter_map(|i| i.result_id));
    let known = |i: &Instruction| i.operands.first().and_then(Operand::id_ref_any).is_none_or(|id| ids.contains(&id));
    module.annotations.retain(known);
    module.types_global_values.retain(|i| !matches!(i.class.opcode, Op::Line | Op::NoLine));
    Ok(())
}
