//! Reflects a SPIR-V module's interface: storage buffers, push constants, specialization constants, sizes.
//!
//! Used by the build script for grilly's own shaders, and by the run-time compiler for users' shaders.

use std::collections::HashMap;

use rspirv::dr::{Instruction, Module, Operand};
use rspirv::spirv::{Decoration, ExecutionMode, ExecutionModel, Op, StorageClass, Word};

use super::interface::{Access, Binding, Constant, Interface, PushMember, Scalar};

/// How complete a module's names are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// All names and all declared bindings are present: an unoptimised module with debug information.
    Required,
    /// Any name may be missing, and so may unused bindings: a module of external origin.
    #[allow(dead_code)] // the build script reads only its own modules
    Optional,
}

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

/// Reads the interface of a module.
///
/// # Errors
/// A description of what makes it unusable as a compute shader of grilly's.
pub fn reflect(words: &[u32], names: Names) -> Result<Interface, String> {
    let module = load(words)?;
    let reader = Reader::new(&module, names);
    reader.entry_point()?;
    Ok(Interface {
        bindings: reader.bindings()?,
        push: reader.push()?,
        constants: reader.constants()?,
        local_size: reader.local_size()?,
        shared_bytes: reader.shared_bytes()?,
    })
}

/// Invocations and shared-memory bytes of a module's workgroup, with specialization constants set by id and defaults
/// for the others.
///
/// # Errors
/// As [`reflect`].
#[allow(dead_code)] // the build script uses only the defaults
pub fn sizes(words: &[u32], constants: &[(u32, u32)]) -> Result<([u32; 3], u32), String> {
    let module = load(words)?;
    let mut reader = Reader::new(&module, Names::Optional);
    reader.values = constants.iter().copied().collect();
    Ok((reader.local_size()?, reader.shared_bytes()?))
}

/// A module with its declarations by id.
struct Reader<'a> {
    module: &'a Module,
    declared: HashMap<Word, &'a Instruction>,
    /// Names of ids and of their members.
    names: HashMap<(Word, Option<u32>), &'a str>,
    required: bool,
    /// Values of specialization constants that differ from their defaults, by `constant_id`.
    values: HashMap<u32, u32>,
}

impl<'a> Reader<'a> {
    fn new(module: &'a Module, required: Names) -> Self {
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
        Reader { module, declared, names, required: required == Names::Required, values: HashMap::new() }
    }

    /// One compute entry point, `main`.
    fn entry_point(&self) -> Result<(), String> {
        let [entry] = self.module.entry_points.as_slice() else {
            return Err(format!("{} entry points, expected one, \"main\"", self.module.entry_points.len()));
        };
        let [Operand::ExecutionModel(model), _, Operand::LiteralString(name), ..] = entry.operands.as_slice() else {
            return Err("the entry point cannot be read".into());
        };
        if (*model, name.as_str()) == (ExecutionModel::GLCompute, "main") {
            return Ok(());
        }
        Err(format!("the entry point is {name:?} of a {model:?} shader, expected \"main\" of a compute shader"))
    }

    fn declaration(&self, id: Word) -> Result<&'a Instruction, String> {
        self.declared.get(&id).copied().ok_or_else(|| format!("id {id} is not declared"))
    }

    /// The declaration of the operand at a position.
    fn operand(&self, instruction: &Instruction, place: usize) -> Result<&'a Instruction, String> {
        self.declaration(operand_id(instruction, place)?)
    }

    /// The operand of a decoration of `id`, or of its member; 0 for a decoration without one.
    fn decoration(&self, id: Word, member: Option<u32>, decoration: Decoration) -> Option<u32> {
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
    fn variables(&self, class: StorageClass) -> Result<Vec<(Word, &'a Instruction)>, String> {
        let is_it = |i: &&Instruction| i.class.opcode == Op::Variable && i.operands[0] == Operand::StorageClass(class);
        let variable = |instruction: &Instruction| {
            let pointer = self.declaration(instruction.result_type.unwrap_or(0))?;
            Ok((instruction.result_id.unwrap_or(0), self.operand(pointer, 1)?))
        };
        self.module.types_global_values.iter().filter(is_it).map(variable).collect()
    }

    fn bindings(&self) -> Result<Vec<Binding>, String> {
        let mut buffers = self.variables(StorageClass::StorageBuffer)?;
        for class in [StorageClass::Uniform, StorageClass::UniformConstant] {
            for (id, block) in self.variables(class)? {
                // Before SPIR-V 1.3 a storage buffer was a uniform with this decoration.
                if self.decoration(block.result_id.unwrap_or(0), None, Decoration::BufferBlock).is_none() {
                    return Err(format!(
                        "{:?} is not a storage buffer, the only kind of binding there is",
                        self.name(id, None)
                    ));
                }
                buffers.push((id, block));
            }
        }
        let mut bindings: Vec<Binding> = Vec::new();
        for (id, block) in buffers {
            let index = self.decoration(id, None, Decoration::Binding).ok_or("a storage buffer without a binding")?;
            let block_id = block.result_id.unwrap_or(0);
            let members = block.operands.len() as u32;
            let name = match self.name(id, None) {
                "" if members == 1 => self.name(block_id, Some(0)),
                name => name,
            };
            if name.is_empty() && self.required {
                return Err(format!("binding {index} has several members and no instance name"));
            }
            if self.decoration(id, None, Decoration::DescriptorSet).unwrap_or(0) != 0 {
                return Err(format!("{name} is not in set 0"));
            }
            let all = |decoration| {
                self.decoration(id, None, decoration).is_some()
                    || (0..members).all(|m| self.decoration(block_id, Some(m), decoration).is_some())
            };
            let access = match (all(Decoration::NonWritable), all(Decoration::NonReadable)) {
                (true, _) => Access::Read,
                (false, true) => Access::Write,
                (false, false) => Access::ReadWrite,
            };
            // Two blocks may alias one binding, say as float and as vec4: the shorter name is used for both.
            match bindings.iter_mut().find(|b| b.index == index) {
                Some(first) if first.access != access => {
                    return Err(format!("{name} and {} share binding {index} and differ in access", first.name));
                }
                Some(first) if first.name.len() > name.len() => first.name = name.to_owned(),
                Some(_) => {}
                None => bindings.push(Binding { name: name.to_owned(), index, access }),
            }
        }
        bindings.sort_by_key(|b| b.index);
        match bindings.iter().zip(0..).find(|(b, expected)| b.index != *expected) {
            Some((b, expected)) if self.required => {
                Err(format!("{} has binding {}, expected {expected}: no gaps", b.name, b.index))
            }
            _ => Ok(bindings),
        }
    }

    fn name(&self, id: Word, member: Option<u32>) -> &'a str {
        self.names.get(&(id, member)).copied().unwrap_or("")
    }

    fn push(&self) -> Result<Vec<PushMember>, String> {
        let mut members = Vec::new();
        for (_, block) in self.variables(StorageClass::PushConstant)? {
            let block_id = block.result_id.unwrap_or(0);
            for place in 0..block.operands.len() {
                let name = self.name(block_id, Some(place as u32));
                let offset = self.decoration(block_id, Some(place as u32), Decoration::Offset);
                let scalar = self
                    .scalar(operand_id(block, place)?)
                    .ok_or_else(|| format!("push constant {name} is not a 32-bit number"))?;
                if offset != Some(4 * place as u32) {
                    return Err(format!("push constant {name} has offset {offset:?}, expected {}", 4 * place));
                }
                members.push(PushMember { name: name.to_owned(), scalar });
            }
        }
        Ok(members)
    }

    fn scalar(&self, id: Word) -> Option<Scalar> {
        let declaration = self.declared.get(&id)?;
        Some(match (declaration.class.opcode, declaration.operands.as_slice()) {
            (Op::TypeFloat, [Operand::LiteralBit32(32), ..]) => Scalar::F32,
            (Op::TypeInt, [Operand::LiteralBit32(32), Operand::LiteralBit32(0)]) => Scalar::U32,
            (Op::TypeInt, [Operand::LiteralBit32(32), _]) => Scalar::I32,
            (Op::TypeBool, _) => Scalar::Bool,
            _ => return None,
        })
    }

    fn constants(&self) -> Result<Vec<Constant>, String> {
        let mut constants = Vec::new();
        for instruction in &self.module.types_global_values {
            let default = match instruction.class.opcode {
                Op::SpecConstantTrue => 1,
                Op::SpecConstantFalse => 0,
                Op::SpecConstant => literal(instruction.operands.first()),
                _ => continue,
            };
            let id = instruction.result_id.unwrap_or(0);
            let name = self.name(id, None);
            let number =
                self.decoration(id, None, Decoration::SpecId).ok_or_else(|| format!("{name} has no constant_id"))?;
            let scalar = self
                .scalar(instruction.result_type.unwrap_or(0))
                .ok_or_else(|| format!("{name} is not a 32-bit number or a bool"))?;
            constants.push(Constant { name: name.to_owned(), id: number, scalar, default });
        }
        constants.sort_by_key(|c| c.id);
        // glslang emits the constant of `local_size_x_id` twice, the second time without its name.
        constants.dedup_by(|b, a| {
            let twin = a.id == b.id && a.scalar == b.scalar && (a.name.is_empty() || b.name.is_empty());
            if twin && a.name.is_empty() {
                a.name = std::mem::take(&mut b.name);
            }
            twin
        });
        match constants.windows(2).find(|pair| pair[0].id == pair[1].id) {
            Some(pair) => Err(format!("{} and {} share constant_id {}", pair[0].name, pair[1].name, pair[0].id)),
            None => Ok(constants),
        }
    }

    fn local_size(&self) -> Result<[u32; 3], String> {
        for mode in &self.module.execution_modes {
            if let [_, Operand::ExecutionMode(kind), x, y, z] = mode.operands.as_slice() {
                let size = [x, y, z].map(|operand| match (kind, operand) {
                    (ExecutionMode::LocalSize, Operand::LiteralBit32(size)) => Ok(*size),
                    (ExecutionMode::LocalSizeId, Operand::IdRef(id)) => self.evaluate(*id),
                    _ => Err(format!("execution mode {kind:?} where the workgroup's size stands")),
                });
                let [x, y, z] = size;
                return Ok([x?, y?, z?]);
            }
        }
        Err("the workgroup has no size".into())
    }

    fn shared_bytes(&self) -> Result<u32, String> {
        self.variables(StorageClass::Workgroup)?.iter().map(|(_, pointee)| self.bytes(pointee)).sum()
    }

    /// Bytes of a value of a type without explicit layout.
    fn bytes(&self, declaration: &Instruction) -> Result<u32, String> {
        Ok(match declaration.class.opcode {
            Op::TypeFloat | Op::TypeInt => literal(declaration.operands.first()) / 8,
            Op::TypeBool => 4,
            // A vector of three occupies the space of four.
            Op::TypeVector => {
                let lanes = literal(declaration.operands.get(1)).next_power_of_two();
                lanes * self.bytes(self.operand(declaration, 0)?)?
            }
            Op::TypeArray => self.bytes(self.operand(declaration, 0)?)? * self.evaluate(operand_id(declaration, 1)?)?,
            Op::TypeStruct => {
                let member = |place| self.bytes(self.operand(declaration, place)?);
                (0..declaration.operands.len()).map(member).sum::<Result<_, _>>()?
            }
            other => return Err(format!("shared memory of type {other:?}")),
        })
    }

    /// Evaluates an integer constant, with the current values of specialization constants.
    fn evaluate(&self, id: Word) -> Result<u32, String> {
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
        let fault = || format!("{operation:?} does not fit 32 bits");
        match operation {
            Op::IAdd => value(1)?.checked_add(value(2)?).ok_or_else(fault),
            Op::ISub => value(1)?.checked_sub(value(2)?).ok_or_else(fault),
            Op::IMul => value(1)?.checked_mul(value(2)?).ok_or_else(fault),
            Op::UDiv | Op::SDiv => value(1)?.checked_div(value(2)?).ok_or_else(fault),
            Op::UMod | Op::SRem | Op::SMod => value(1)?.checked_rem(value(2)?).ok_or_else(fault),
            Op::ShiftLeftLogical => value(1)?.checked_shl(value(2)?).ok_or_else(fault),
            Op::ShiftRightLogical => value(1)?.checked_shr(value(2)?).ok_or_else(fault),
            Op::Select => value(if value(1)? != 0 { 2 } else { 3 }),
            Op::IEqual => Ok((value(1)? == value(2)?).into()),
            Op::INotEqual => Ok((value(1)? != value(2)?).into()),
            Op::UGreaterThan => Ok((value(1)? > value(2)?).into()),
            Op::ULessThan => Ok((value(1)? < value(2)?).into()),
            other => Err(format!("a size computed by {other:?}, which reflect.rs does not evaluate")),
        }
    }
}

fn literal(operand: Option<&Operand>) -> u32 {
    match operand {
        Some(Operand::LiteralBit32(value)) => *value,
        _ => 0,
    }
}

fn operand_id(instruction: &Instruction, place: usize) -> Result<Word, String> {
    match instruction.operands.get(place) {
        Some(Operand::IdRef(id)) => Ok(*id),
        other => Err(format!("{:?} has {other:?} where an id stands", instruction.class.opcode)),
    }
}
