//! What an op says about itself.

use super::definition::{self, Sought, Step};
use super::{Counts, Op, Operand, Shape, Shapes, Signature, Vjp};
use crate::Result;
use crate::dtype::DType;
use crate::numerics::Coverage;

/// Operations and bytes of a step: each input is read once, each output written once, scratch memory both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Floating-point operations (a multiply-add counts two).
    pub flops: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

/// A call of an op: its attributes as JSON, the axes of its operands, and the places of those that have a gradient. A form
/// that only the documentation lists has no axes.
#[cfg(test)]
pub(crate) type Example = (&'static str, &'static [&'static [usize]], &'static [usize]);

/// Properties of an op, derived from its attributes.
pub trait Operation {
    /// The operands, the results and the work per element: by default operand `x` and result `y`.
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("x")]);
    /// Whether programs are likely to repeat a call with the same attributes; not if one of them is a counter of random
    /// numbers.
    const RECURS: bool = true;
    /// Why the op has no derivative; `None` for one that has.
    const NO_DERIVATIVE: Option<&'static str> = None;
    /// What `numerics="everywhere"` makes of the op: refused unless its file says otherwise.
    const EVERYWHERE: Coverage = Coverage::OF_TRAINING;
    /// Calls that tests make, which together have every operand; those of a fused op are found in plans.
    #[cfg(test)]
    const EXAMPLES: &'static [Example];
    /// The signature, for an op whose attributes change it.
    fn signature(&self) -> Signature {
        Self::SIGNATURE
    }
    /// [`Operation::EVERYWHERE`], for an op of whose attributes some are refused.
    fn everywhere(&self) -> Coverage {
        Self::EVERYWHERE
    }
    /// Checks the operands' shapes, beyond what the signature states, and returns the results' shapes: by default that
    /// of the first operand, and for a fused op those of its steps.
    ///
    /// # Errors
    /// `InvalidArgument` naming op, operand, the shape found and the shape expected.
    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        definition::infer(&self.definition(of.all())?, of)
    }
    /// Runs the checks that need a batch's counts, on operands whose shapes fit.
    ///
    /// # Errors
    /// As [`Operation::infer`].
    fn check_counts(&self, _of: &Shapes<'_>, _counts: Counts) -> Result<()> {
        Ok(())
    }
    /// Whether the texts of a batch can run separately: no text's result depends on its position in the batch.
    fn is_separable(&self, _operands: &[&Shape]) -> bool {
        true
    }
    /// Floating-point operations at the given counts: by default those that the signature states, and for a fused op the
    /// sum over its steps.
    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        definition::flops(self, operands, counts)
    }
    /// Element type of the results that have no type of their own, given the operands' types: the type of the first
    /// non-index operand.
    fn result_type(&self, operands: &[DType]) -> DType {
        operands.iter().copied().find(|dtype| dtype.is_float()).unwrap_or(DType::F32)
    }
    /// The steps that a fused op consists of; empty for an op that is not fused.
    ///
    /// # Errors
    /// `InvalidArgument` for operands from which no step can be made.
    fn definition(&self, _operands: &[&Shape]) -> Result<Vec<Step>> {
        Ok(Vec::new())
    }
    /// The pattern by which a fused op is found in plans.
    fn sought() -> Option<Sought>
    where
        Self: Sized,
    {
        None
    }
    /// The gradients of the operands: by default those of the steps of a fused op, by the chain rule. `None` for an op
    /// without a derivative, and for operands of which kernels cannot compute them.
    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        match Self::NO_DERIVATIVE {
            Some(_) => None,
            None => Vjp::of_steps(self.definition(operands).ok()?, operands),
        }
    }
    /// As [`Operation::vjp`], where operand `i` is the same value as operand `same[i]`, the first that is: the gradients
    /// of such operands may be given as one, that of the first.
    fn vjp_of(&self, operands: &[&Shape], _same: &[usize]) -> Option<Vjp> {
        self.vjp(operands)
    }
    /// Axes of the float32 scratch memory that kernels may use while the op runs, given the stored type of the result;
    /// smaller than any operand of rows.
    fn scratch(&self, _operands: &[&Shape], _stored: DType) -> Vec<Shape> {
        Vec::new()
    }
    /// Equivalent ops run in sequence: the first takes the operands, each of the others the result before it.
    fn steps(&self, _operands: &[&Shape]) -> Option<Vec<Op>> {
        None
    }
}
