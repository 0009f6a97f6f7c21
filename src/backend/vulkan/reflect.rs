//! Reflects a SPIR-V module's interface: storage buffers, push constants, specialization constants, sizes.
//!
//! Used by the build script for grilly's own shaders, and by the run-time compiler for users' shaders.

use rspirv::dr::{Instruction, Operand};
use rspirv::spirv::{Decoration, ExecutionMode, ExecutionModel, Op, StorageClass};

use super::interface::{Access, Binding, Constant, Element, Interface, PushMember};
use super::spirv::{Reader, literal, load, operand_id};

/// How complete a module's names are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// All names and all declared bindings are present: an unoptimised module with debug information.
    Required,
    /// Any name may be missing, and so may unused bindings: a module of external origin.
    #[allow(dead_code)] // the build script reads only its own modules
    Optional,
}

/// Reads the interface of a module.
///
/// # Errors
/// A description of what makes it unusable as a compute shader of grilly's.
pub fn reflect(words: &[u32], names: Names) -> Result<Interface, String> {
    let module = load(words)?;
    let reader = Reader::new(&module, names == Names::Required);
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
    let mut reader = Reader::new(&module, false);
    reader.values = constants.iter().copied().collect();
    Ok((reader.local_size()?, reader.shared_bytes()?))
}

/// The numbers of a module's storage buffers by binding, where all members of a buffer are made of one kind.
///
/// # Errors
/// As [`reflect`].
#[allow(dead_code)] // the build script checks no arrays
pub fn elements(words: &[u32]) -> Result<Vec<(u32, Element)>, String> {
    let module = load(words)?;
    let reader = Reader::new(&module, false);
    let (mut found, mut mixed) = (Vec::new(), Vec::new());
    for (id, block) in reader.buffers()? {
        let Some(index) = reader.decoration(id, None, Decoration::Binding) else { continue };
        for place in 0..block.operands.len() {
            let element = reader.element(operand_id(block, place)?);
            match found.iter().find(|(other, _)| *other == index) {
                Some((_, known)) if Some(*known) != element => mixed.push(index),
                Some(_) => {}
                None => element.map_or_else(|| mixed.push(index), |element| found.push((index, element))),
            }
        }
    }
    found.retain(|(index, _)| !mixed.contains(index));
    Ok(found)
}

impl Reader<'_> {
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

    /// The storage buffers, each with its block.
    fn buffers(&self) -> Result<Vec<(u32, &Instruction)>, String> {
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
        match buffers.iter().find(|(_, block)| block.class.opcode != Op::TypeStruct) {
            Some((id, _)) => {
                let name = self.name(*id, None);
                Err(format!("{name} is an array of buffers; declare each buffer with a binding of its own"))
            }
            None => Ok(buffers),
        }
    }

    /// The kind of number of which a type is made, if it is one.
    fn element(&self, id: u32) -> Option<Element> {
        let declaration = self.declaration(id).ok()?;
        let bits = literal(declaration.operands.first());
        match declaration.class.opcode {
            Op::TypeFloat => Some(Element { float: true, bits }),
            Op::TypeInt => Some(Element { float: false, bits }),
            Op::TypeVector | Op::TypeMatrix | Op::TypeArray | Op::TypeRuntimeArray => {
                self.element(operand_id(declaration, 0).ok()?)
            }
            _ => None,
        }
    }

    fn bindings(&self) -> Result<Vec<Binding>, String> {
        let mut bindings: Vec<Binding> = Vec::new();
        for (id, block) in self.buffers()? {
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
}
