//! Elements set to zero at random.

use super::rng::Sequence;
use super::{Operand, Operation, Shape, Shapes, Signature, Vjp};
use crate::Result;
use crate::dtype::DType;

/// `y = x / (1 - p)` where `u >= p`, else 0, elementwise. Operands: `x`, then `key [4]` (u32) if the random numbers
/// change between runs of a plan: `seed` and `offset`, each as its low and its high word, which replace the attributes.
///
/// `u` of element `i` is `(word >> 8) 2^-24` of word `i % 4` of [`super::rng::philox`] at key `seed` and the counter whose
/// lower 64 bits are `i / 4 + offset` and whose third word is `stream`: the same on every device.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dropout {
    /// Probability of an element to become zero, 0 to 1.
    pub p: f32,
    /// Key of the random numbers.
    pub seed: u64,
    /// Counter of the first four elements; default 0.
    #[serde(default)]
    pub offset: u64,
    /// Which of the sequences of `key` it is, as its places in a network have their own; default 0, without `key` alone.
    #[serde(default)]
    pub stream: u32,
}

impl Dropout {
    /// The random numbers; `key` replaces seed and offset.
    pub(crate) fn numbers(&self, key: Option<&[u32]>) -> Sequence {
        let upper = [self.stream, 0];
        let own = || Sequence { seed: self.seed, offset: self.offset, upper };
        key.map_or_else(own, |key| Sequence::of_key(key, upper))
    }
}

impl Operation for Dropout {
    const RECURS: bool = false;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] =
        &[(r#"{"p": 0.5, "seed": 1}"#, &[&[2, 3]], &[0]), (r#"{"p": 0.5, "seed": 1}"#, &[&[2, 3], &[4]], &[0])];
    const SIGNATURE: Signature =
        Signature::of(&[Operand::rows("x").narrow(), Operand::scalar("key").stored(DType::U32).optional()]).flops(2);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        if !(0.0..=1.0).contains(&self.p) {
            return Err(of.fault(format!("p is {}, expected 0 to 1", self.p)));
        }
        if of.get("key").is_some() {
            of.expect("key", &Shape::fixed(&[4]), "the words of seed and offset")?;
        } else if self.stream != 0 {
            return Err(of.fault(format!("stream is {}, expected 0 without key", self.stream)));
        }
        Ok(vec![of["x"].clone()])
    }

    // The random number of an element depends on its index in the whole tensor.
    fn is_separable(&self, _: &[&Shape]) -> bool {
        false
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        // The gradient drops the same elements.
        Vjp::single(operands.len(), self.clone(), 1..operands.len())
    }
}
