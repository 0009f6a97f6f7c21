//! Constants and operations that WGSL lacks, by others.

use std::collections::{HashMap, HashSet};

use rspirv::dr::{Instruction, Operand};
use rspirv::spirv::{Op, StorageClass, Word};

use super::rewriter::Rewriter;

impl Rewriter {
    /// Reads the bits of infinities and NaNs from variables, since WGSL refuses them in expressions that are evaluated
    /// as it is compiled.
    pub fn hide_infinite(&mut self) {
        let declared = self.module.types_global_values.iter();
        let floats: HashSet<Word> =
            declared.clone().filter(|i| i.class.opcode == Op::TypeFloat).filter_map(|i| i.result_id).collect();
        let bits = |i: &Instruction| match i.operands[..] {
            [Operand::LiteralBit32(bits)] if i.class.opcode == Op::Constant && bits & 0x7f80_0000 == 0x7f80_0000 => {
                Some((i.result_id?, i.result_type?))
            }
            _ => None,
        };
        let bits: HashMap<Word, Word> = declared.filter_map(bits).collect();
        let _ = self.replace(|rewriter, mut i, out| {
            if let (Op::Bitcast, Some(Operand::IdRef(from))) = (i.class.opcode, i.operands.first())
                && floats.contains(&i.result_type.unwrap_or(0))
                && let Some(kind) = bits.get(from)
            {
                let pointer = rewriter.pointer(StorageClass::Private, *kind);
                let initial = vec![Operand::StorageClass(StorageClass::Private), Operand::IdRef(*from)];
                let variable = rewriter.declare(Op::Variable, Some(pointer), initial);
                for entry in &mut rewriter.module.entry_points {
                    if !entry.operands.contains(&Operand::IdRef(variable)) {
                        entry.operands.push(Operand::IdRef(variable));
                    }
                }
                i.operands[0] = Operand::IdRef(rewriter.push(out, Op::Load, *kind, &[variable]));
            }
            out.push(i);
            Ok(())
        });
    }

    /// Computes the two words of a product of unsigned integers from products of 16 bits.
    ///
    /// # Errors
    /// A type that is not declared.
    pub fn shorten(&mut self) -> Result<(), String> {
        self.pairs(Op::UMulExtended, Self::product)
    }

    /// Replaces operations whose two results are a pair by those of each.
    fn pairs(
        &mut self,
        op: Op,
        parts: fn(&mut Self, &mut Vec<Instruction>, Word, Word, Word) -> [Word; 2],
    ) -> Result<(), String> {
        self.replace(|rewriter, i, out| {
            let [Operand::IdRef(a), Operand::IdRef(b)] = i.operands[..] else {
                out.push(i);
                return Ok(());
            };
            if i.class.opcode != op {
                out.push(i);
                return Ok(());
            }
            let kind = i.result_type.and_then(|pair| rewriter.part(pair, 0)).ok_or("a pair without a type")?;
            let operands = parts(rewriter, out, kind, a, b).map(Operand::IdRef).to_vec();
            out.push(Instruction::new(Op::CompositeConstruct, i.result_type, i.result_id, operands));
            Ok(())
        })
    }

    /// Computes the carry of a sum by operations of one result, and finds infinities and NaNs by their bits.
    ///
    /// # Errors
    /// A type that is not declared.
    pub fn simplify(&mut self) -> Result<(), String> {
        self.pairs(Op::IAddCarry, Self::sum_and_carry)?;
        self.replace(|rewriter, i, out| {
            if let (Op::IsInf | Op::IsNan, Some(Operand::IdRef(x))) = (i.class.opcode, i.operands.first()) {
                let truth = i.result_type.ok_or("a test without a type")?;
                let vector = rewriter.declared(truth).filter(|i| i.class.opcode == Op::TypeVector);
                let count = vector.map(|i| i.operands[1].clone());
                let mut kind = rewriter.declare(Op::TypeInt, None, [32, 0].map(Operand::LiteralBit32).to_vec());
                if let Some(count) = count {
                    kind = rewriter.declare(Op::TypeVector, None, vec![Operand::IdRef(kind), count]);
                }
                let bits = rewriter.push(out, Op::Bitcast, kind, &[*x]);
                let (mask, infinity) = (rewriter.constant(kind, 0x7fff_ffff), rewriter.constant(kind, 0x7f80_0000));
                let magnitude = rewriter.push(out, Op::BitwiseAnd, kind, &[bits, mask]);
                let test = if i.class.opcode == Op::IsInf { Op::IEqual } else { Op::UGreaterThan };
                let operands = [magnitude, infinity].map(Operand::IdRef).to_vec();
                out.push(Instruction::new(test, Some(truth), i.result_id, operands));
                return Ok(());
            }
            out.push(i);
            Ok(())
        })
    }

    fn sum_and_carry(&mut self, out: &mut Vec<Instruction>, kind: Word, a: Word, b: Word) -> [Word; 2] {
        let sum = self.push(out, Op::IAdd, kind, &[a, b]);
        let mut truth = self.declare(Op::TypeBool, None, vec![]);
        let vector = self.declared(kind).filter(|i| i.class.opcode == Op::TypeVector);
        if let Some(count) = vector.map(|i| i.operands[1].clone()) {
            truth = self.declare(Op::TypeVector, None, vec![Operand::IdRef(truth), count]);
        }
        let less = self.push(out, Op::ULessThan, truth, &[sum, a]);
        let (one, zero) = (self.constant(kind, 1), self.constant(kind, 0));
        let carry = self.push(out, Op::Select, kind, &[less, one, zero]);
        [sum, carry]
    }

    /// Least significant word first, from products of 16 bits.
    fn product(&mut self, out: &mut Vec<Instruction>, kind: Word, a: Word, b: Word) -> [Word; 2] {
        let (mask, half) = (self.constant(kind, 0xffff), self.constant(kind, 16));
        let low = |r: &mut Self, out: &mut Vec<Instruction>, x| r.push(out, Op::BitwiseAnd, kind, &[x, mask]);
        let high = |r: &mut Self, out: &mut Vec<Instruction>, x| r.push(out, Op::ShiftRightLogical, kind, &[x, half]);
        let times = |r: &mut Self, out: &mut Vec<Instruction>, x, y| r.push(out, Op::IMul, kind, &[x, y]);
        let plus = |r: &mut Self, out: &mut Vec<Instruction>, x, y| r.push(out, Op::IAdd, kind, &[x, y]);
        let (a_low, a_high) = (low(self, out, a), high(self, out, a));
        let (b_low, b_high) = (low(self, out, b), high(self, out, b));
        let (first, last) = (times(self, out, a_low, b_low), times(self, out, a_high, b_high));
        let (left, right) = (times(self, out, a_low, b_high), times(self, out, a_high, b_low));
        let (left_low, right_low) = (low(self, out, left), low(self, out, right));
        let mut middle = high(self, out, first);
        middle = plus(self, out, middle, left_low);
        middle = plus(self, out, middle, right_low);
        let mut upper = last;
        for part in [left, right, middle] {
            let carried = high(self, out, part);
            upper = plus(self, out, upper, carried);
        }
        [times(self, out, a, b), upper]
    }
}
