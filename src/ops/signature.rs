//! Signatures of ops as data: names of operands, the meaning of their elements, and the types that kernels take.

mod check;
mod operand;

pub use operand::{Axis, Follows, Operand, Presence, Role};

/// What an op takes, gives and computes.
#[derive(Debug, Clone, Copy)]
pub struct Signature {
    /// The operands in order; for an op with groups of operands, those of one group.
    pub operands: &'static [Operand],
    /// The results in order. A result with the name of an operand is that operand, written in place.
    pub results: &'static [Operand],
    /// Floating-point operations per element of the first operand.
    pub flops: u64,
    /// Whether operands come in groups, of which there may be any number.
    pub grouped: bool,
    /// Names of the scratch memory, as [`Operation::scratch`](super::Operation::scratch) gives its axes.
    pub scratch: &'static [&'static str],
    /// Whether kernels take known axes alone. Programs replace counted ones by their sizes.
    pub sized: bool,
}

impl Signature {
    /// An op with one result, `y`, which computes one operation per element.
    pub(super) const fn of(operands: &'static [Operand]) -> Self {
        const WIDE: &[Operand] = &[Operand::rows("y")];
        const NARROW: &[Operand] = &[Operand::rows("y").narrow()];
        let results = if operands[0].narrow { NARROW } else { WIDE };
        Signature { operands, results, flops: 1, grouped: false, scratch: &[], sized: false }
    }

    /// With other results.
    pub(super) const fn gives(self, results: &'static [Operand]) -> Self {
        Signature { results, ..self }
    }

    /// With other work.
    pub(super) const fn flops(self, flops: u64) -> Self {
        Signature { flops, ..self }
    }

    /// With operands in groups.
    pub(super) const fn in_groups(self) -> Self {
        Signature { grouped: true, ..self }
    }

    /// With scratch memory.
    pub(super) const fn scratch(self, names: &'static [&'static str]) -> Self {
        Signature { scratch: names, ..self }
    }

    /// With kernels for known axes alone.
    pub(super) const fn sized(self) -> Self {
        Signature { sized: true, ..self }
    }
}

#[cfg(test)]
mod tests;
