//! What is read of, and changed in, the words of a SPIR-V module without parsing it.

use std::collections::HashMap;

use rspirv::spirv::{Capability, Decoration, Op};

use super::kernel::{Constant, Variant};

/// Whether a module declares a capability; declarations of capabilities come first.
pub fn declares(words: &[u32], capability: Capability) -> bool {
    let declarations = words.get(5..).unwrap_or_default().chunks_exact(2);
    declarations
        .take_while(|pair| pair[0] == (2 << 16 | Op::Capability as u32))
        .any(|pair| pair[1] == capability as u32)
}

/// Makes values, by `constant_id`, the defaults of a module's specialization constants of 32 bits: validation layers, and what reads
/// a module before it is specialized, find matrices of the sizes that it will have.
pub fn set_defaults(words: &mut [u32], values: &[(u32, u32)]) {
    let mut ids: HashMap<u32, u32> = HashMap::new();
    let mut at = 5;
    while let Some(word) = words.get(at).copied() {
        let (opcode, length) = (word & 0xffff, (word >> 16) as usize);
        if opcode == Op::Function as u32 || length == 0 || at + length > words.len() {
            return;
        }
        if opcode == Op::Decorate as u32 && length == 4 && words[at + 2] == Decoration::SpecId as u32 {
            let value = values.iter().find(|(id, _)| *id == words[at + 3]);
            ids.extend(value.map(|(_, value)| (words[at + 1], *value)));
        } else if let (true, Some(value)) =
            (opcode == Op::SpecConstant as u32 && length == 4, ids.get(words.get(at + 2).unwrap_or(&0)))
        {
            words[at + 3] = *value;
        }
        at += length;
    }
}

impl Variant {
    /// The constants' defaults, those of matrices for its shape.
    pub fn defaults(&self) -> Vec<u32> {
        let shape = ["matrix_m", "matrix_n", "matrix_k"].into_iter().zip(self.matrix().into_iter().flatten());
        let of = |constant: &Constant| shape.clone().find(|(name, _)| *name == constant.name);
        self.constants.iter().map(|constant| of(constant).map_or(constant.default, |(_, size)| size)).collect()
    }

    /// The module with values of its constants as their defaults.
    pub fn words(&self, constants: &[u32]) -> Vec<u32> {
        let mut words = self.spirv.to_vec();
        let ids = self.constants.iter().map(|constant| constant.id);
        set_defaults(&mut words, &ids.zip(constants.iter().copied()).collect::<Vec<_>>());
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two capabilities, and constants of 16, decorated with ids 20 and 21, and of 4 without one.
    fn module() -> Vec<u32> {
        let one = |length: u32, opcode: Op, operands: &[u32]| [&[length << 16 | opcode as u32], operands].concat();
        let spec_id = Decoration::SpecId as u32;
        [
            vec![0x0723_0203, 0x0001_0600, 0, 9, 0],
            one(2, Op::Capability, &[Capability::Shader as u32]),
            one(2, Op::Capability, &[Capability::GroupNonUniform as u32]),
            one(4, Op::Decorate, &[3, spec_id, 20]),
            one(4, Op::Decorate, &[4, spec_id, 21]),
            one(4, Op::TypeInt, &[2, 32, 0]),
            one(4, Op::SpecConstant, &[2, 3, 16]),
            one(4, Op::SpecConstant, &[2, 4, 16]),
            one(4, Op::SpecConstant, &[2, 5, 4]),
        ]
        .concat()
    }

    #[test]
    fn capabilities_are_those_that_are_declared() {
        assert!(declares(&module(), Capability::GroupNonUniform) && declares(&module(), Capability::Shader));
        // The operand of a decoration is none.
        assert!(!declares(&module(), Capability::Int16) && !declares(&[], Capability::Shader));
    }

    #[test]
    fn values_become_the_defaults_of_their_constants_alone() {
        let mut words = module();
        set_defaults(&mut words, &[(20, 8), (7, 99)]);
        let changed: Vec<_> = words.iter().zip(module()).filter(|(now, before)| *now != before).collect();
        assert_eq!(changed, [(&8, 16)]);
        // A module that ends in the middle is left as it is.
        let (mut cut, before) = (module()[..12].to_vec(), module()[..12].to_vec());
        set_defaults(&mut cut, &[(20, 8)]);
        assert_eq!(cut, before);
    }
}
