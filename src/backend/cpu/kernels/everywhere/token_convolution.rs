//! Sums over the rows next to each token's, of products that are rounded first.

use super::functions::{canonical, mul, settle};
use crate::Result;
use crate::backend::cpu::kernels::token_convolution::add;
use crate::backend::cpu::step::Step;
use crate::ops::TokenConvolution;

pub(super) fn token_convolution(step: &Step<'_>, op: &TokenConvolution, out: &mut [f32]) -> Result<()> {
    add(step, op, out, inlined!(|y, weight, x| y + mul(settle(weight), settle(x))))?;
    let columns = step.shape(0).columns();
    step.rows(out, columns, 16).each(inlined!(|_, y| y.iter_mut().for_each(|y| *y = canonical(*y))));
    Ok(())
}
