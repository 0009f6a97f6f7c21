//! The layout of a block as a module declares it.

use rspirv::dr::Instruction;
use rspirv::spirv::{Decoration, Op, StorageClass};

use super::{Axis, Block, Member, Number};
use crate::backend::vulkan::spirv::{Reader, literal, operand_id};

/// Most members of a block, those of structs counted apart.
const MOST_MEMBERS: usize = 4096;

/// A type within a block, with its place.
struct Within<'a> {
    name: String,
    declaration: &'a Instruction,
    offset: u64,
    axes: Vec<Axis>,
    /// Distance of columns, or of rows, of matrices.
    matrix: (u64, bool),
}

impl Block {
    /// The block of a struct type.
    ///
    /// # Errors
    /// What has no layout that is known here.
    pub(in crate::compiler) fn of(reader: &Reader<'_>, name: &str, declaration: &Instruction) -> Result<Self, String> {
        let (mut members, name) = (Vec::new(), name.to_owned());
        let (axes, offset) = (Vec::new(), 0);
        reader.read(Within { name: String::new(), declaration, offset, axes, matrix: (0, false) }, &mut members)?;
        let tail = members
            .iter()
            .find_map(|member: &Member| member.axes.first().filter(|axis| axis.size.is_none()).map(|axis| axis.stride));
        let place = declaration.operands.len().saturating_sub(1) as u32;
        let id = declaration.result_id.unwrap_or(0);
        let bytes = match tail {
            Some(_) => reader.decoration(id, Some(place), Decoration::Offset).map(u64::from),
            None => members.iter().try_fold(0, |most: u64, member| Some(most.max(member.end()?))),
        };
        let bytes = bytes.ok_or("it has no size")?;
        // Whatever a module declares, nothing is read or written outside the memory of the block.
        let inside = |member: &Member| {
            let most = if member.is_last() { bytes.checked_add(tail.unwrap_or(0)) } else { Some(bytes) };
            member.end().zip(most).is_some_and(|(end, most)| end <= most)
        };
        match members.iter().find(|member| !inside(member)) {
            Some(member) => Err(format!("{} is larger than its place", member.name)),
            None => Ok(Block { members, bytes, stride: tail, name }),
        }
    }
}

impl Reader<'_> {
    /// Appends the members of a type.
    fn read(&self, within: Within<'_>, found: &mut Vec<Member>) -> Result<(), String> {
        let Within { name, declaration, offset, mut axes, matrix } = within;
        let (id, op) = (declaration.result_id.unwrap_or(0), declaration.class.opcode);
        let element = || self.operand(declaration, 0);
        let stride = || {
            let stride = self.decoration(id, None, Decoration::ArrayStride).filter(|stride| *stride > 0);
            stride.map(u64::from).ok_or_else(|| format!("{name} has no stride"))
        };
        match op {
            Op::TypeStruct => return self.members(Within { name, declaration, offset, axes, matrix }, found),
            Op::TypeArray | Op::TypeRuntimeArray => {
                let size = (op == Op::TypeArray).then(|| self.evaluate(operand_id(declaration, 1)?)).transpose()?;
                axes.push(Axis { size: size.map(u64::from), stride: stride()? });
                return self.read(Within { name, declaration: element()?, offset, axes, matrix }, found);
            }
            _ => {}
        }
        let (columns, column) = match op {
            Op::TypeMatrix => (Some(literal(declaration.operands.get(1))), element()?),
            _ => (None, declaration),
        };
        let (rows, scalar) = match column.class.opcode {
            Op::TypeVector => (Some(literal(column.operands.get(1))), self.operand(column, 0)?),
            _ => (None, column),
        };
        let bits = literal(scalar.operands.first());
        let number = match scalar.class.opcode {
            Op::TypeFloat => Number::Float(bits),
            Op::TypeInt if literal(scalar.operands.get(1)) == 0 => Number::Uint(bits),
            Op::TypeInt => Number::Int(bits),
            other => return Err(format!("{name} is a {other:?}, which has no numbers")),
        };
        let (mut down, mut across) = (number.bytes(), matrix.0);
        if matrix.1 {
            std::mem::swap(&mut down, &mut across);
        }
        axes.extend(rows.map(|rows| Axis { size: Some(rows.into()), stride: down }));
        axes.extend(columns.map(|columns| Axis { size: Some(columns.into()), stride: across }));
        if found.len() >= MOST_MEMBERS {
            return Err(format!("more than {MOST_MEMBERS} members"));
        }
        found.push(Member { name, number, offset, axes });
        Ok(())
    }

    /// Appends the members of a struct.
    fn members(&self, within: Within<'_>, found: &mut Vec<Member>) -> Result<(), String> {
        let Within { name: outer, declaration, offset, axes, .. } = within;
        let id = declaration.result_id.unwrap_or(0);
        // The member before, and the byte after it. GLSL's offsets are those of the defaults of constants.
        let mut before: Option<(String, u64)> = None;
        for place in 0..declaration.operands.len() {
            let of = |kind| self.decoration(id, Some(place as u32), kind);
            let own = match self.name(id, Some(place as u32)) {
                "" => place.to_string(),
                own => own.to_owned(),
            };
            let name = if outer.is_empty() { own } else { format!("{outer}.{own}") };
            let from = of(Decoration::Offset).ok_or_else(|| format!("{name} has no offset"))?;
            let matrix = (of(Decoration::MatrixStride).unwrap_or(0).into(), of(Decoration::RowMajor).is_some());
            let offset = offset.checked_add(from.into()).ok_or("it has no size")?;
            let declaration = self.operand(declaration, place)?;
            if let Some((other, end)) = before
                && end > offset
            {
                return Err(format!("{other} overlaps {name}"));
            }
            let first = found.len();
            self.read(Within { name: name.clone(), declaration, offset, axes: axes.clone(), matrix }, found)?;
            let mut ends = found[first..].iter().map(|member| member.end_of(axes.len()));
            before = Some((name, ends.try_fold(0, |most: u64, end| Some(most.max(end?))).ok_or("it has no size")?));
        }
        Ok(())
    }
}

/// A declared buffer.
pub(in crate::compiler) struct Declared<'a> {
    pub(in crate::compiler) binding: u32,
    /// Of the variable, or of its only member.
    pub(in crate::compiler) name: &'a str,
    /// Of its block.
    pub(in crate::compiler) title: &'a str,
    pub(in crate::compiler) block: &'a Instruction,
}

impl<'a> Reader<'a> {
    /// The buffers of a module that was found to have storage buffers alone.
    pub(in crate::compiler) fn declared(&self) -> Result<Vec<Declared<'a>>, String> {
        let mut found = Vec::new();
        for class in [StorageClass::StorageBuffer, StorageClass::Uniform] {
            for (id, block) in self.variables(class)? {
                let Some(binding) = self.decoration(id, None, Decoration::Binding) else { continue };
                let own = block.result_id.unwrap_or(0);
                let name = match self.name(id, None) {
                    "" if block.operands.len() == 1 => self.name(own, Some(0)),
                    name => name,
                };
                found.push(Declared { binding, name, title: self.name(own, None), block });
            }
        }
        Ok(found)
    }
}
