//! `y = dropout(softmax(x))`, row by row.

use super::dropout::drop_out;
use super::softmax::rows;
use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::SoftmaxDropout;

pub(super) fn softmax_dropout(step: &Step<'_>, op: &SoftmaxDropout, out: &mut [f32]) -> Result<()> {
    let numbers = op.dropout().numbers(None);
    rows(step, &op.softmax(), out, |first, y| drop_out(op.p, &numbers, first, y))
}
