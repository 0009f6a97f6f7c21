//! Binary cross entropy of probabilities.

use super::definition::{Origin, Term};
use super::{BinaryKind, Operand, Operation, Shape, Signature, Vjp};

/// `y = -(t max(log p, -100) + (1 - t) max(log(1 - p), -100))`, elementwise. Operands: `p`, `t`, of equal shape.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BinaryCrossEntropy {}

impl Operation for BinaryCrossEntropy {
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[2, 3], &[2, 3]], &[0])];
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("p"), Operand::rows("t").like("p")]).flops(5);

    /// Targets have none.
    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        let mut vjp = Vjp::new(operands.len());
        let operand = |place| Term::whole(Origin::Operand(place));
        let by_p = Self::slope(&mut vjp, [operand(0), operand(1)], Term::whole(Vjp::gradient(operands.len())));
        vjp.give(0, by_p);
        Some(vjp)
    }
}

impl BinaryCrossEntropy {
    /// `g (p - t) / max(p (1 - p), 1e-12)`, as in torch.
    pub(super) fn slope(vjp: &mut Vjp, [p, t]: [Term; 2], g: Term) -> Term {
        // 1 - p is exact from 0.5 on, p - p^2 is not.
        let below = vjp.by_number(BinaryKind::Subtract, p.clone(), 1.0);
        let rest = vjp.by_number(BinaryKind::Multiply, below, -1.0);
        let product = vjp.binary(BinaryKind::Multiply, p.clone(), rest);
        let divisor = vjp.at_least(product, 1e-12);
        let difference = vjp.binary(BinaryKind::Subtract, p, t);
        let slope = vjp.binary(BinaryKind::Divide, difference, divisor);
        vjp.binary(BinaryKind::Multiply, slope, g)
    }
}
