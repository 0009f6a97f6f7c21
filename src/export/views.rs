//! One declaration per binding, for languages without aliases.

use std::collections::HashMap;

use rspirv::dr::{Instruction, Operand};
use rspirv::spirv::{Decoration, Op, StorageClass, Word};

use super::rewriter::Rewriter;

/// A binding seen as vectors of `count` numbers of type `part`, or again as numbers, which the buffer `single` sees as
/// numbers.
#[derive(Clone, Copy)]
struct View {
    single: Word,
    number: Word,
    part: Word,
    count: u32,
}

/// The views, and the ids that point to an element of one: view and index.
struct Views {
    all: HashMap<Word, View>,
    elements: HashMap<Word, (View, Word)>,
    /// Types of the ids in functions.
    kinds: HashMap<Word, Word>,
}

impl Rewriter {
    /// Where a binding is seen as numbers and as vectors, or as several kinds of vectors, reads and writes of vectors become
    /// those of their numbers.
    ///
    /// # Errors
    /// A use other than a read or a write.
    pub fn join_views(&mut self) -> Result<(), String> {
        let mut by_binding: HashMap<u32, Vec<Word>> = HashMap::new();
        self.buffers().into_iter().for_each(|(id, binding)| by_binding.entry(binding).or_default().push(id));
        let mut all = HashMap::new();
        for (binding, ids) in by_binding.into_iter().filter(|(_, ids)| ids.len() > 1) {
            let elements: Vec<_> = ids.iter().filter_map(|id| Some((*id, self.element(*id)?))).collect();
            let known = elements.iter().find(|(_, (_, count))| *count == 1).map(|(id, of)| (*id, of.0));
            let (single, number) = known.unwrap_or_else(|| self.words(ids[0], binding));
            let others = elements.into_iter().filter(|(id, _)| *id != single);
            all.extend(others.map(|(id, (part, count))| (id, View { single, number, part, count })));
        }
        if all.is_empty() {
            return Ok(());
        }
        let functions = self.module.functions.iter();
        let instructions =
            functions.flat_map(|f| f.parameters.iter().chain(f.blocks.iter().flat_map(|b| &b.instructions)));
        let kinds = instructions.filter_map(|i| Some((i.result_id?, i.result_type?))).collect();
        let mut views = Views { all, elements: HashMap::new(), kinds };
        self.replace(|rewriter, instruction, out| rewriter.in_numbers(instruction, &mut views, out))?;
        let gone = |operand: &Operand| matches!(operand, Operand::IdRef(id) if views.all.contains_key(id));
        let module = &mut self.module;
        module.entry_points.iter_mut().for_each(|entry| entry.operands.retain(|operand| !gone(operand)));
        module.annotations.retain(|i| !i.operands.first().is_some_and(gone));
        module.debug_names.retain(|i| !i.operands.first().is_some_and(gone));
        module.types_global_values.retain(|i| !i.result_id.is_some_and(|id| views.all.contains_key(&id)));
        Ok(())
    }

    /// A new view of a binding as words, like the buffer `other`.
    fn words(&mut self, other: Word, binding: u32) -> (Word, Word) {
        let word = self.declare(Op::TypeInt, None, [32, 0].map(Operand::LiteralBit32).to_vec());
        // Types with decorations are not shared.
        let [array, block, pointer, variable] = [self.id(), self.id(), self.id(), self.id()];
        let class = Operand::StorageClass(StorageClass::StorageBuffer);
        let declarations = [
            (Op::TypeRuntimeArray, None, array, vec![Operand::IdRef(word)]),
            (Op::TypeStruct, None, block, vec![Operand::IdRef(array)]),
            (Op::TypePointer, None, pointer, vec![class.clone(), Operand::IdRef(block)]),
            (Op::Variable, Some(pointer), variable, vec![class]),
        ];
        let declared = declarations.map(|(op, kind, id, operands)| Instruction::new(op, kind, Some(id), operands));
        self.module.types_global_values.extend(declared);
        self.decorate(array, Decoration::ArrayStride, Some(4));
        self.decorate(block, Decoration::Block, None);
        let member = [Operand::IdRef(block), Operand::LiteralBit32(0)];
        let offset = [Operand::Decoration(Decoration::Offset), Operand::LiteralBit32(0)];
        let operands = member.into_iter().chain(offset).collect();
        self.module.annotations.push(Instruction::new(Op::MemberDecorate, None, None, operands));
        self.decorate(variable, Decoration::DescriptorSet, Some(0));
        self.decorate(variable, Decoration::Binding, Some(binding));
        let only_read = [Operand::IdRef(other), Operand::Decoration(Decoration::NonWritable)];
        if self.module.annotations.iter().any(|i| i.operands == only_read) {
            self.decorate(variable, Decoration::NonWritable, None);
        }
        self.module.entry_points.iter_mut().for_each(|entry| entry.operands.push(Operand::IdRef(variable)));
        (variable, word)
    }

    /// The type of the numbers in a buffer whose only member is an array, and how many an element has.
    fn element(&self, buffer: Word) -> Option<(Word, u32)> {
        let element = self.part(self.part(self.pointee(buffer)?, 0)?, 0)?;
        let declared = self.declared(element)?;
        match declared.operands[..] {
            [Operand::IdRef(number), Operand::LiteralBit32(count)] if declared.class.opcode == Op::TypeVector => {
                Some((number, count))
            }
            _ => Some((element, 1)),
        }
    }

    fn in_numbers(
        &mut self,
        instruction: Instruction,
        views: &mut Views,
        out: &mut Vec<Instruction>,
    ) -> Result<(), String> {
        let id_of = |operand: &Operand| if let Operand::IdRef(id) = operand { Some(*id) } else { None };
        let ids: Vec<Word> = instruction.operands.iter().filter_map(id_of).collect();
        let op = instruction.class.opcode;
        let refused = || Err(format!("{op:?} of a binding that is seen as numbers and as vectors"));
        let first = ids.first().copied().unwrap_or(0);
        if let (Op::AccessChain | Op::InBoundsAccessChain, Some(view)) = (op, views.all.get(&first).copied()) {
            let (id, index) = (instruction.result_id.unwrap_or(0), ids[2]);
            match ids.get(3) {
                None => _ = views.elements.insert(id, (view, index)),
                Some(_) if view.part != view.number => return refused(),
                Some(part) => {
                    let (start, kind) = self.start(view, index, views, out)?;
                    let at = self.push(out, Op::IAdd, kind, &[start, *part]);
                    let mut chain = self.chain(view, at);
                    chain.result_id = Some(id);
                    out.push(chain);
                }
            }
            return Ok(());
        }
        let Some((view, index)) = views.elements.get(&first).copied() else {
            if ids.iter().any(|id| views.all.contains_key(id) || views.elements.contains_key(id)) {
                return refused();
            }
            out.push(instruction);
            return Ok(());
        };
        let (start, kind) = self.start(view, index, views, out)?;
        let mut parts = Vec::new();
        for place in 0..view.count {
            let offset = self.constant(kind, place);
            let at = self.push(out, Op::IAdd, kind, &[start, offset]);
            let chain = self.chain(view, at);
            let pointer = chain.result_id.unwrap_or(0);
            out.push(chain);
            match (op, ids.get(1)) {
                (Op::Load, _) => {
                    let mut number = self.push(out, Op::Load, view.number, &[pointer]);
                    if view.part != view.number {
                        number = self.push(out, Op::Bitcast, view.part, &[number]);
                    }
                    parts.push(Operand::IdRef(number));
                }
                (Op::Store, Some(value)) => {
                    let mut part = *value;
                    if view.count > 1 {
                        part = self.id();
                        let operands = vec![Operand::IdRef(*value), Operand::LiteralBit32(place)];
                        out.push(Instruction::new(Op::CompositeExtract, Some(view.part), Some(part), operands));
                    }
                    if view.part != view.number {
                        part = self.push(out, Op::Bitcast, view.number, &[part]);
                    }
                    let operands = [pointer, part].map(Operand::IdRef).to_vec();
                    out.push(Instruction::new(Op::Store, None, None, operands));
                }
                _ => return refused(),
            }
        }
        if op == Op::Load {
            let Instruction { result_type, result_id, .. } = instruction;
            let joined = if view.count > 1 { Op::CompositeConstruct } else { Op::CopyObject };
            out.push(Instruction::new(joined, result_type, result_id, parts));
        }
        Ok(())
    }

    /// The first number of an element, and the type of its index.
    fn start(
        &mut self,
        view: View,
        index: Word,
        views: &Views,
        out: &mut Vec<Instruction>,
    ) -> Result<(Word, Word), String> {
        let kind = views.kinds.get(&index).copied().or_else(|| self.declared(index)?.result_type);
        let kind = kind.ok_or_else(|| format!("id {index} has no type"))?;
        let count = self.constant(kind, view.count);
        Ok((self.push(out, Op::IMul, kind, &[index, count]), kind))
    }

    /// The address of a number.
    fn chain(&mut self, view: View, at: Word) -> Instruction {
        let kind = self.pointer(StorageClass::StorageBuffer, view.number);
        let int = self.declare(Op::TypeInt, None, [32, 1].map(Operand::LiteralBit32).to_vec());
        let zero = self.constant(int, 0);
        let operands = [view.single, zero, at].map(Operand::IdRef).to_vec();
        let id = self.id();
        Instruction::new(Op::AccessChain, Some(kind), Some(id), operands)
    }
}
