//! The declarations, names and constants of a SPIR-V module, by id.

use std::collections::HashMap;

use rspirv::dr::{Instruction, Module, Operand};
use rspirv::spirv::{Decoration, Op, StorageClass, Word};

use super::interface::Scalar;

/// Loads a module's instructions. rspirv does not support `OpExecutionModeId`, which has the form of `OpExecutionMode`.
///
/// # Errors
/// The parse error of rspirv.
pub fn load(words: &[u32]) -> Result<Module, String> {
    let mut words = words.to_vec();
    let mut at = 5;
    while let Some(word) = words.get_mut(at) {
        let opcode = *word & 0xffff;
        if opcode == Op::ExecutionModeId as u32 {
            *word = (*word & 0xffff_0000) | Op::ExecutionMode as u32;
        }
        // Execution modes precede the first function.
        let length = (*word >> 16) as usize;
        if opcode == Op::Function as u32 || length == 0 {
            break;
        }
        at += length;
    }
    rspirv::dr::load_words(&words).map_err(|e| format!("cannot parse the SPIR-V: {e}"))
}

/// A module with its declarations by id.
pub struct Reader<'a> {
    pub module: &'a Module,
    declared: HashMap<Word, &'a Instruction>,
    /// Names of ids and of their members.
    names: HashMap<(Word, Option<u32>), &'a str>,
    pub required: bool,
    /// Values of specialization constants that differ from their defaults, by `constant_id`.
    pub values: HashMap<u32, u32>,
}

impl<'a> Reader<'a> {
    pub fn new(module: &'a Module, required: bool) -> Self {
        let declared = module.types_global_values.iter().filter_map(|i| Some((i.result_id?, i))).collect();
        let mut names = HashMap::new();
        for instruction in &module.debug_names {
            match (instruction.class.opcode, instruction.operands.as_slice()) {
                (Op::Name, [Operand::IdRef(id), Operand::LiteralString(name)]) => {
                    names.insert((*id, None), name.as_str())
                }
                (Op::MemberName, [Operand::IdRef(id), Operand::LiteralBit32(member), Operand::LiteralString(name)]) => {
                    names.insert((*id, Some(*member)), name.as_str())
                }
                _ => None,
            };
        }
        Reader { module, declared, names, required, values: HashMap::new() }
    }

    pub fn declaration(&self, id: Word) -> Result<&'a Instruction, String> {
        self.declared.get(&id).copied().ok_or_else(|| format!("id {id} is not declared"))
    }

    /// The declaration of the operand at a position.
    pub fn operand(&self, instruction: &Instruction, place: usize) -> Result<&'a Instruction, String> {
        self.declaration(operand_id(instruction, place)?)
    }

    /// The operand of a decoration of `id`, or of its member; 0 for a decoration without one.
    pub fn decoration(&self, id: Word, member: Option<u32>, decoration: Decoration) -> Option<u32> {
        self.module.annotations.iter().find_map(|a| {
            let (to, rest) = match (a.class.opcode, a.operands.as_slice()) {
                (Op::Decorate, [Operand::IdRef(to), rest @ ..]) => ((*to, None), rest),
                (Op::MemberDecorate, [Operand::IdRef(to), Operand::LiteralBit32(place), rest @ ..]) => {
                    ((*to, Some(*place)), rest)
                }
                _ => return None,
            };
            let is_it = to == (id, member) && rest.first() == Some(&Operand::Decoration(decoration));
            is_it.then(|| literal(rest.get(1)))
        })
    }

    /// Global variables of a storage class, each with its pointee type.
    pub fn variables(&self, class: StorageClass) -> Result<Vec<(Word, &'a Instruction)>, String> {
        let is_it = |i: &&Instruction| i.class.opcode == Op::Variable && i.operands[0] == Operand::StorageClass(class);
        let variable = |instruction: &Instruction| {
            let pointer = self.declaration(instruction.result_type.unwrap_or(0))?;
            Ok((instruction.result_id.unwrap_or(0), self.operand(pointer, 1)?))
        };
        self.module.types_global_values.iter().filter(is_it).map(variable).collect()
    }

    pub fn name(&self, id: Word, member: Option<u32>) -> &'a str {
        self.names.get(&(id, member)).copied().unwrap_or("")
    }

    pub fn scalar(&self, id: Word) -> Option<Scalar> {
        let declaration = self.declared.get(&id)?;
        Some(match (declaration.class.opcode, declaration.operands.as_slice()) {
            (Op::TypeFloat, [Operand::LiteralBit32(32), ..]) => Scalar::F32,
            (Op::TypeInt, [Operand::LiteralBit32(32), Operand::LiteralBit32(0)]) => Scalar::U32,
            (Op::TypeInt, [Operand::LiteralBit32(32), _]) => Scalar::I32,
            (Op::TypeBool, _) => Scalar::Bool,
            _ => return None,
        })
    }

    /// Bytes of a value of a type without explicit layout.
    pub fn bytes(&self, declaration: &Instruction) -> Result<u32, String> {
        Ok(match declaration.class.opcode {
            Op::TypeFloat | Op::TypeInt => literal(declaration.operands.first()) / 8,
            Op::TypeBool => 4,
            // A vector of three occupies the space of four.
            Op::TypeVector => {
                let lanes = literal(declaration.operands.get(1)).next_power_of_two();
                lanes * self.bytes(self.operand(declaration, 0)?)?
            }
            Op::TypeArray => match self.evaluate(operand_id(declaration, 1)?)? {
                0 => return Err("an array of no elements in shared memory".into()),
                elements => {
                    let bytes = self.bytes(self.operand(declaration, 0)?)?.checked_mul(elements);
                    bytes.ok_or("more than 4 GiB of shared memory")?
                }
            },
            Op::TypeStruct => {
                let member = |sum: u32, place| {
                    let bytes = self.bytes(self.operand(declaration, place)?)?;
                    sum.checked_add(bytes).ok_or_else(|| "more than 4 GiB of shared memory".to_owned())
                };
                (0..declaration.operands.len()).try_fold(0, member)?
            }
            other => return Err(format!("shared memory of type {other:?}")),
        })
    }

    /// Evaluates an integer constant, with the current values of specialization constants.
    pub fn evaluate(&self, id: Word) -> Result<u32, String> {
        let declaration = self.declaration(id)?;
        let value = self.decoration(id, None, Decoration::SpecId).and_then(|number| self.values.get(&number));
        if let Some(value) = value {
            return Ok(*value);
        }
        match declaration.class.opcode {
            Op::Constant | Op::SpecConstant => return Ok(literal(declaration.operands.first())),
            Op::ConstantTrue | Op::SpecConstantTrue => return Ok(1),
            Op::ConstantFalse | Op::SpecConstantFalse => return Ok(0),
            Op::SpecConstantOp => {}
            other => return Err(format!("a size that is a {other:?}")),
        }
        let Some(Operand::LiteralSpecConstantOpInteger(operation)) = declaration.operands.first() else {
            return Err("a specialization constant without an operation".into());
        };
        let value = |place: usize| operand_id(declaration, place).and_then(|id| self.evaluate(id));
        let computed: fn(u32, u32) -> Option<u32> = match operation {
            Op::Select => return value(if value(1)? != 0 { 2 } else { 3 }),
            Op::IAdd => u32::checked_add,
            Op::ISub => u32::checked_sub,
            Op::IMul => u32::checked_mul,
            Op::UDiv | Op::SDiv => u32::checked_div,
            Op::UMod | Op::SRem | Op::SMod => u32::checked_rem,
            Op::ShiftLeftLogical => u32::checked_shl,
            Op::ShiftRightLogical => u32::checked_shr,
            Op::IEqual => |a, b| Some((a == b).into()),
            Op::INotEqual => |a, b| Some((a != b).into()),
            Op::UGreaterThan => |a, b| Some((a > b).into()),
            Op::ULessThan => |a, b| Some((a < b).into()),
            other => return Err(format!("a size computed by {other:?}, which is not evaluated")),
        };
        computed(value(1)?, value(2)?).ok_or_else(|| format!("{operation:?} does not fit 32 bits"))
    }
}

pub fn literal(operand: Option<&Operand>) -> u32 {
    match operand {
        Some(Operand::LiteralBit32(value)) => *value,
        _ => 0,
    }
}

pub fn operand_id(instruction: &Instruction, place: usize) -> Result<Word, String> {
    match instruction.operands.get(place) {
        Some(Operand::IdRef(id)) => Ok(*id),
        other => Err(format!("{:?} has {other:?} where an id stands", instruction.class.opcode)),
    }
}
