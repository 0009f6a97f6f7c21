//! A SPIR-V module that is being rewritten: declarations on request, and the rewriting that every language needs.

use std::collections::{HashMap, HashSet};

use rspirv::binary::Assemble;
use rspirv::dr::{Instruction, Module, Operand};
use rspirv::spirv::{BuiltIn, Decoration, ExecutionMode, Op, StorageClass, Word};

use crate::backend::vulkan::spirv;

/// A module with the first id that is free.
pub(super) struct Rewriter {
    pub module: Module,
    next: Word,
}

impl Rewriter {
    pub fn new(words: &[u32]) -> Result<Self, String> {
        let mut module = spirv::load(words)?;
        let is_line = |i: &Instruction| matches!(i.class.opcode, Op::Line | Op::NoLine);
        module.debug_string_source.clear();
        module.debug_module_processed.clear();
        module.types_global_values.retain(|i| !is_line(i));
        for block in module.functions.iter_mut().flat_map(|f| &mut f.blocks) {
            block.instructions.retain(|i| !is_line(i));
        }
        let next = module.header.as_ref().map_or(1, |header| header.bound);
        Ok(Rewriter { module, next })
    }

    pub fn finish(mut self) -> Vec<u32> {
        if let Some(header) = &mut self.module.header {
            header.bound = self.next;
        }
        self.module.assemble()
    }

    pub fn id(&mut self) -> Word {
        self.next += 1;
        self.next - 1
    }

    /// Puts every constant and type before its first use: the pass that computes constants may give a use another one of the
    /// same number, which is declared later.
    pub fn order_values(&mut self) {
        let values = std::mem::take(&mut self.module.types_global_values);
        let places: HashMap<Word, usize> =
            values.iter().enumerate().filter_map(|(place, i)| Some((i.result_id?, place))).collect();
        let mut values: Vec<Option<Instruction>> = values.into_iter().map(Some).collect();
        // Those that wait for what they use, the innermost last.
        let mut waiting: Vec<usize> = (0..values.len()).rev().collect();
        while let Some(place) = waiting.pop() {
            let Some(value) = &values[place] else { continue };
            let used = value.result_type.iter().copied().chain(value.operands.iter().filter_map(Operand::id_ref_any));
            let missing =
                used.filter_map(|id| places.get(&id)).find(|used| **used != place && values[**used].is_some());
            match missing {
                Some(missing) => waiting.extend([place, *missing]),
                None => self.module.types_global_values.extend(values[place].take()),
            }
        }
    }

    /// Replaces a workgroup size that depends on constants by a literal one.
    pub fn set_local_size(&mut self, size: [u32; 3]) {
        let modes = [ExecutionMode::LocalSize, ExecutionMode::LocalSizeId].map(Operand::ExecutionMode);
        let is_size = |i: &Instruction| i.operands.get(1).is_some_and(|mode| modes.contains(mode));
        self.module.execution_modes.retain(|i| !is_size(i));
        for entry in &self.module.entry_points {
            let mut operands = vec![entry.operands[1].clone(), Operand::ExecutionMode(ExecutionMode::LocalSize)];
            operands.extend(size.map(Operand::LiteralBit32));
            self.module.execution_modes.push(Instruction::new(Op::ExecutionMode, None, None, operands));
        }
        let builtin = Operand::BuiltIn(BuiltIn::WorkgroupSize);
        self.module.annotations.retain(|i| i.operands.get(2) != Some(&builtin));
    }

    /// Names functions without their argument types, and buffers as their only member.
    pub fn simplify_names(&mut self) {
        let buffers: Vec<(Word, Option<Word>)> =
            self.buffers().into_iter().map(|(id, _)| (id, self.pointee(id))).collect();
        let member = |block: &Word| {
            self.module.debug_names.iter().find_map(|i| match &i.operands[..] {
                [Operand::IdRef(id), Operand::LiteralBit32(0), Operand::LiteralString(name)] if id == block => {
                    Some(name.clone())
                }
                _ => None,
            })
        };
        let named: Vec<(Word, String)> =
            buffers.iter().filter_map(|(id, block)| Some((*id, member(block.as_ref()?)?))).collect();
        for instruction in &mut self.module.debug_names {
            if let (Op::Name, [Operand::IdRef(id), Operand::LiteralString(name)]) =
                (instruction.class.opcode, &mut instruction.operands[..])
            {
                name.truncate(name.find('(').unwrap_or(name.len()));
                if let Some((_, own)) = named.iter().find(|(buffer, _)| buffer == id).filter(|_| name.is_empty()) {
                    name.clone_from(own);
                }
            }
        }
    }

    pub fn decorate(&mut self, id: Word, decoration: Decoration, value: Option<u32>) {
        let mut operands = vec![Operand::IdRef(id), Operand::Decoration(decoration)];
        operands.extend(value.map(Operand::LiteralBit32));
        self.module.annotations.push(Instruction::new(Op::Decorate, None, None, operands));
    }

    /// Makes push constants a uniform block. Its members, 4 bytes each, keep their offsets.
    pub fn move_parameters(&mut self, binding: u32) {
        let [from, to] = [StorageClass::PushConstant, StorageClass::Uniform].map(Operand::StorageClass);
        let mut blocks = Vec::new();
        for i in &mut self.module.types_global_values {
            if matches!(i.class.opcode, Op::TypePointer | Op::Variable) && i.operands[0] == from {
                i.operands[0] = to.clone();
                blocks.extend(i.result_id.filter(|_| i.class.opcode == Op::Variable));
            }
        }
        for id in blocks {
            self.decorate(id, Decoration::DescriptorSet, Some(0));
            self.decorate(id, Decoration::Binding, Some(binding));
        }
    }

    /// Storage buffers with their bindings.
    pub fn buffers(&self) -> Vec<(Word, u32)> {
        let of_class = Operand::StorageClass(StorageClass::StorageBuffer);
        let variables = self.module.types_global_values.iter().filter(|i| i.class.opcode == Op::Variable);
        let ids = variables.filter(|i| i.operands[0] == of_class).filter_map(|i| i.result_id);
        let binding = |id: Word| {
            self.module.annotations.iter().find_map(|i| match i.operands[..] {
                [Operand::IdRef(to), Operand::Decoration(Decoration::Binding), Operand::LiteralBit32(at)]
                    if to == id =>
                {
                    Some((id, at))
                }
                _ => None,
            })
        };
        ids.filter_map(binding).collect()
    }

    /// States on the buffers themselves which are only read; no language has buffers that are only written.
    pub fn set_access(&mut self, read_only: &HashSet<u32>) {
        let access = [Decoration::NonReadable, Decoration::NonWritable].map(Operand::Decoration);
        self.module.annotations.retain(|i| !i.operands.iter().any(|operand| access.contains(operand)));
        for (id, _) in self.buffers().into_iter().filter(|(_, binding)| read_only.contains(binding)) {
            self.decorate(id, Decoration::NonWritable, None);
        }
    }

    pub fn declared(&self, id: Word) -> Option<&Instruction> {
        self.module.types_global_values.iter().find(|i| i.result_id == Some(id))
    }

    /// The id in an operand of a declaration.
    pub fn part(&self, id: Word, place: usize) -> Option<Word> {
        match self.declared(id)?.operands.get(place)? {
            Operand::IdRef(id) => Some(*id),
            _ => None,
        }
    }

    /// The type of a variable.
    pub fn pointee(&self, variable: Word) -> Option<Word> {
        self.part(self.declared(variable)?.result_type?, 1)
    }

    /// A declaration with these operands, new if there is none.
    pub fn declare(&mut self, op: Op, kind: Option<Word>, operands: Vec<Operand>) -> Word {
        let same = |i: &&Instruction| i.class.opcode == op && i.result_type == kind && i.operands == operands;
        if let Some(id) = self.module.types_global_values.iter().find(same).and_then(|i| i.result_id) {
            return id;
        }
        let id = self.id();
        self.module.types_global_values.push(Instruction::new(op, kind, Some(id), operands));
        id
    }

    /// A constant of a type of integers, or of vectors of them, all alike.
    pub fn constant(&mut self, kind: Word, value: u32) -> Word {
        let vector = self.declared(kind).filter(|i| i.class.opcode == Op::TypeVector).map(|i| i.operands.clone());
        match vector.as_deref() {
            Some([Operand::IdRef(scalar), Operand::LiteralBit32(count)]) => {
                let (scalar, count) = (*scalar, *count as usize);
                let one = self.constant(scalar, value);
                self.declare(Op::ConstantComposite, Some(kind), vec![Operand::IdRef(one); count])
            }
            _ => self.declare(Op::Constant, Some(kind), vec![Operand::LiteralBit32(value)]),
        }
    }

    pub fn pointer(&mut self, class: StorageClass, to: Word) -> Word {
        self.declare(Op::TypePointer, None, vec![Operand::StorageClass(class), Operand::IdRef(to)])
    }

    /// Adds an operation on ids and returns its result.
    pub fn push(&mut self, out: &mut Vec<Instruction>, op: Op, kind: Word, operands: &[Word]) -> Word {
        let id = self.id();
        let operands = operands.iter().copied().map(Operand::IdRef).collect();
        out.push(Instruction::new(op, Some(kind), Some(id), operands));
        id
    }

    /// Passes each instruction of the functions to `each`, which adds its replacement to a list.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn replace(
        &mut self,
        mut each: impl FnMut(&mut Self, Instruction, &mut Vec<Instruction>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut functions = std::mem::take(&mut self.module.functions);
        for block in functions.iter_mut().flat_map(|function| &mut function.blocks) {
            let mut out = Vec::with_capacity(block.instructions.len());
            for instruction in std::mem::take(&mut block.instructions) {
                each(self, instruction, &mut out)?;
            }
            block.instructions = out;
        }
        self.module.functions = functions;
        Ok(())
    }
}
