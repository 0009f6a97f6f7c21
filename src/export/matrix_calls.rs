//! Calls of functions that a module only declares.

use rspirv::dr::{Block, Function, Instruction, Operand};
use rspirv::spirv::{Op, Word};

use super::matrices::{Declared, Matrices};
use super::rewriter::Rewriter;

impl Rewriter {
    /// Calls the function of this name, which is declared for its first call.
    pub fn call(
        &mut self,
        m: &mut Matrices,
        calls: &'static str,
        result: Option<(Word, Word)>,
        arguments: &[Word],
        out: &mut Vec<Instruction>,
    ) -> Result<(), String> {
        let void = self.declare(Op::TypeVoid, None, vec![]);
        let (kind, id) = result.unwrap_or_else(|| (void, self.id()));
        m.kinds.insert(id, kind);
        let mut types = vec![kind];
        for argument in arguments {
            let known = m.kinds.get(argument).copied();
            types.push(known.or_else(|| self.declared(*argument)?.result_type).ok_or("an argument without a type")?);
        }
        let known = m.functions.iter().find(|(declared, own, _)| declared.calls == calls && *own == types);
        let known = known.and_then(|(_, _, function)| function.def.as_ref()?.result_id);
        let function = known.unwrap_or_else(|| {
            let name = format!("matrix_function_{}", m.functions.len());
            let function = self.without_body(&types, &name);
            let id = function.def.as_ref().and_then(|def| def.result_id).unwrap_or(0);
            m.functions.push((Declared { name, calls }, types, function));
            id
        });
        let operands = std::iter::once(function).chain(arguments.iter().copied()).map(Operand::IdRef).collect();
        out.push(Instruction::new(Op::FunctionCall, Some(kind), Some(id), operands));
        Ok(())
    }

    /// A function of these types, the result's first, that has an effect, so that no call is moved.
    fn without_body(&mut self, types: &[Word], name: &str) -> Function {
        let of = self.declare(Op::TypeFunction, None, types.iter().copied().map(Operand::IdRef).collect());
        let integer = self.declare(Op::TypeInt, None, [32, 0].map(Operand::LiteralBit32).to_vec());
        let [scope, semantics] = [self.constant(integer, 2), self.constant(integer, 0x108)];
        let [own, label, nothing] = [self.id(), self.id(), self.id()];
        let mut parameters = Vec::new();
        for (place, kind) in types[1..].iter().enumerate() {
            let id = self.id();
            self.name(id, &format!("given_{place}"));
            parameters.push(Instruction::new(Op::FunctionParameter, Some(*kind), Some(id), vec![]));
        }
        let order = vec![Operand::IdScope(scope), Operand::IdMemorySemantics(semantics)];
        let mut instructions = vec![Instruction::new(Op::MemoryBarrier, None, None, order)];
        if self.declared(types[0]).is_some_and(|kind| kind.class.opcode == Op::TypeVoid) {
            instructions.push(Instruction::new(Op::Return, None, None, vec![]));
        } else {
            instructions.push(Instruction::new(Op::Undef, Some(types[0]), Some(nothing), vec![]));
            instructions.push(Instruction::new(Op::ReturnValue, None, None, vec![Operand::IdRef(nothing)]));
        }
        self.name(own, name);
        let control = Operand::FunctionControl(rspirv::spirv::FunctionControl::NONE);
        Function {
            def: Some(Instruction::new(Op::Function, Some(types[0]), Some(own), vec![control, Operand::IdRef(of)])),
            end: Some(Instruction::new(Op::FunctionEnd, None, None, vec![])),
            parameters,
            blocks: vec![Block { label: Some(Instruction::new(Op::Label, None, Some(label), vec![])), instructions }],
        }
    }

    pub fn name(&mut self, id: Word, name: &str) {
        let operands = vec![Operand::IdRef(id), Operand::LiteralString(name.into())];
        self.module.debug_names.push(Instruction::new(Op::Name, None, None, operands));
    }
}
