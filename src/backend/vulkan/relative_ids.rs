//! SPIR-V with ids as differences: shaders that are alike then have equal words, which a compressor finds.
//!
//! A result becomes its difference from the result before; an operand that a function defines its difference from the last result;
//! one that is defined before all functions stays. All words else, types of results among them, are as they were.
//!
//! Source: Pranckevičius, "SMOL-V" (2016), a codec of bytes by the same differences.

use std::collections::HashSet;

use rspirv::grammar::{INSTRUCTION_TABLE, OperandKind, OperandQuantifier};
use rspirv::spirv::{MAGIC_NUMBER, Op};

/// Words of a module before its first instruction.
const HEADER: usize = 5;

/// What a word of an instruction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Result,
    Operand,
    Other,
}

/// The words of an instruction after the first; the last few are repeated.
#[derive(Debug, Default, Clone)]
struct Form {
    words: Vec<Word>,
    repeated: Vec<Word>,
}

impl Form {
    fn word(&self, place: usize) -> Word {
        let repeated = || self.repeated.get((place - self.words.len()) % self.repeated.len().max(1));
        *self.words.get(place).or_else(repeated).unwrap_or(&Word::Other)
    }
}

/// The forms of all instructions, by opcode.
fn forms() -> Vec<Form> {
    let mut forms: Vec<Form> = Vec::new();
    for instruction in INSTRUCTION_TABLE.iter() {
        let mut form = Form::default();
        for operand in instruction.operands {
            let words = match operand.kind {
                OperandKind::IdResult => &[Word::Result][..],
                OperandKind::IdRef | OperandKind::IdScope | OperandKind::IdMemorySemantics => &[Word::Operand],
                OperandKind::PairIdRefIdRef => &[Word::Operand, Word::Operand],
                OperandKind::PairIdRefLiteralInteger => &[Word::Operand, Word::Other],
                OperandKind::PairLiteralIntegerIdRef => &[Word::Other, Word::Operand],
                // The operands of an instruction that is named by a number.
                OperandKind::LiteralExtInstInteger | OperandKind::LiteralSpecConstantOpInteger => {
                    form.repeated = vec![Word::Operand];
                    &[Word::Other]
                }
                // Of any number of words.
                OperandKind::LiteralString | OperandKind::LiteralContextDependentNumber => break,
                _ => &[Word::Other],
            };
            match operand.quantifier {
                OperandQuantifier::ZeroOrMore => form.repeated = words.to_vec(),
                _ => form.words.extend(words),
            }
        }
        let opcode = instruction.opcode as usize;
        forms.resize(forms.len().max(opcode + 1), Form::default());
        forms[opcode] = form;
    }
    forms
}

/// 0, -1, 1, -2, ... as 0, 1, 2, 3, ...
#[allow(dead_code)] // the library only reads differences
fn folded(difference: u32) -> u32 {
    difference << 1 ^ ((difference as i32) >> 31) as u32
}

fn unfolded(number: u32) -> u32 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

/// What is known of a module up to a word.
#[derive(Default)]
struct Known {
    /// The last result.
    last: u32,
    before_functions: HashSet<u32>,
    in_functions: bool,
}

/// Puts a word in the place of each id, in modules that follow each other; `coded` gives the id, and that word.
fn code(modules: &mut [u32], coded: impl Fn(&Known, Word, u32) -> (u32, u32)) {
    let (forms, none) = (forms(), Form::default());
    let (mut at, mut known) = (0, Known::default());
    while at < modules.len() {
        if modules[at] == MAGIC_NUMBER {
            (at, known) = (at + HEADER, Known::default());
            continue;
        }
        let (opcode, length) = (modules[at] & 0xffff, (modules[at] >> 16).max(1) as usize);
        known.in_functions |= opcode == Op::Function as u32;
        let form = forms.get(opcode as usize).unwrap_or(&none);
        for (place, word) in modules[at + 1..at + length].iter_mut().enumerate() {
            let kind = form.word(place);
            if kind == Word::Other {
                continue;
            }
            let (id, own) = coded(&known, kind, *word);
            *word = own;
            if kind == Word::Result {
                known.last = id;
                if !known.in_functions {
                    known.before_functions.insert(id);
                }
            }
        }
        at += length;
    }
}

/// Makes ids, below 2^29, differences.
///
/// # Panics
/// Where an instruction is not whole.
#[allow(dead_code)] // the library only reads differences
pub fn to_differences(modules: &mut [u32]) {
    code(modules, |known, kind, id| match kind {
        Word::Result => (id, folded(id.wrapping_sub(known.last))),
        _ if known.before_functions.contains(&id) => (id, id << 1 | 1),
        _ => (id, folded(known.last.wrapping_sub(id)) << 1),
    });
}

/// Makes differences ids again.
///
/// # Panics
/// As [`to_differences`].
pub fn to_ids(modules: &mut [u32]) {
    code(modules, |known, kind, word| {
        let id = match kind {
            Word::Result => known.last.wrapping_add(unfolded(word)),
            _ if word & 1 == 1 => word >> 1,
            _ => known.last.wrapping_sub(unfolded(word >> 1)),
        };
        (id, id)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_and_alike_code_is_equal() {
        // Types and a constant; then twice an addition to the result before.
        let begin = [MAGIC_NUMBER, 0x0001_0600, 0, 20, 0];
        let constant = [4 << 16 | Op::TypeInt as u32, 6, 32, 1, 4 << 16 | Op::Constant as u32, 6, 9, 1];
        let function = [5 << 16 | Op::Function as u32, 6, 10, 0, 6];
        let add = |result: u32| [5 << 16 | Op::IAdd as u32, 6, result, result - 1, 9];
        let module = [&begin[..], &constant, &function, &add(11), &add(12), &add(13)].concat();
        let both = [&module[..], &module].concat();
        let mut coded = both.clone();
        to_differences(&mut coded);
        assert_eq!(coded[..module.len()], coded[module.len()..]);
        let additions: Vec<&[u32]> = coded[module.len() - 15..module.len()].chunks(5).collect();
        // The type is as it was, the result one more, the operand before by one, the constant itself.
        assert_eq!(additions, [&[5 << 16 | Op::IAdd as u32, 6, 2, 4, 19]; 3]);
        to_ids(&mut coded);
        assert_eq!(coded, both);
    }
}
