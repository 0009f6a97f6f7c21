//! `y = act(x W^T + b) + residual`

use super::functions::{activate, canonical, settle};
use crate::backend::cpu::exact::{Balance, Exact, multiply};
use crate::backend::cpu::simd::Arch;
use crate::backend::cpu::step::Step;
use crate::ops::{Activation, ActivationKind, Linear, Residual};
use crate::{Error, Result};

/// What follows a product, in this order.
pub(super) struct Finish<'a> {
    arch: Arch,
    bias: Option<&'a [f32]>,
    activation: Option<Activation>,
    residual: Option<&'a [f32]>,
}

impl<'a> Finish<'a> {
    pub(super) fn new(arch: Arch, bias: Option<&'a [f32]>, activation: Option<ActivationKind>) -> Self {
        let activation = activation.filter(|kind| *kind != ActivationKind::Identity);
        Finish { arch, bias, activation: activation.map(Activation::from), residual: None }
    }

    /// Of rows, the first of which has the number `first`.
    pub(super) fn apply(&self, first: usize, columns: usize, out: &mut [f32]) {
        self.arch.vectorized(inlined!(|| {
            for (row, y) in (first..).zip(out.chunks_exact_mut(columns)) {
                if let Some(bias) = self.bias {
                    y.iter_mut().zip(bias).for_each(|(y, b)| *y = settle(*y) + settle(*b));
                }
                if let Some(function) = &self.activation {
                    activate(function, y);
                }
                if let Some(residual) = self.residual {
                    let residual = &residual[row * columns..][..columns];
                    y.iter_mut().zip(residual).for_each(|(y, x)| *y = settle(*y) + settle(*x));
                }
                y.iter_mut().for_each(|y| *y = canonical(*y));
            }
        }));
    }
}

pub(super) fn linear(step: &Step<'_>, op: &Linear, out: &mut [f32]) -> Result<()> {
    let mut own = Vec::new();
    let [weight] = matrices(step, 1, &mut own)? else {
        return Err(Error::InvalidArgument(format!("a weight has shape {}, expected a matrix", step.shape(1))));
    };
    let bias = op.bias.then(|| step.floats(2)).transpose()?;
    let mut finish = Finish::new(step.arch, bias, op.activation);
    finish.residual = (op.residual == Residual::Added).then(|| step.floats(step.operands.len() - 1)).transpose()?;
    let columns = weight.columns();
    let apply = |first: usize, out: &mut [f32]| finish.apply(first, columns, out);
    multiply(step.arch, step.team, step.floats(0)?, weight, apply, out)
}

/// The matrices of a weight; those of an input of the batch are packed for this batch, into `own`.
pub(super) fn matrices<'a>(step: &Step<'a>, weight: usize, own: &'a mut Vec<Exact>) -> Result<&'a [Exact]> {
    if let Some(packed) = step.constants.exact(step.operands[weight]) {
        return Ok(packed);
    }
    let (sizes, values) = (step.shape(weight).sizes(step.counts), step.floats(weight)?);
    let [others @ .., rows, depth] = &sizes[..] else {
        return Err(Error::InvalidArgument(format!("a weight has shape {sizes:?}, expected a matrix")));
    };
    for matrix in 0..others.iter().product() {
        own.push(Exact::new(step.arch, Balance::Weight, [*rows, *depth], |n, row| {
            row.copy_from_slice(&values[(matrix * rows + n) * depth..][..*depth]);
            Ok(())
        })?);
    }
    Ok(own)
}
