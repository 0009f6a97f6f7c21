//! Elementwise ops: nonlinearities, arithmetic, gates, rotations.

use super::functions::{activate, canonical, div, mul, settle};
use super::refused;
use crate::Result;
use crate::backend::cpu::kernels::{self, binary::walk};
use crate::backend::cpu::step::Step;
use crate::dtype::DType;
use crate::ops::rope::head_axes;
use crate::ops::{Activation, Binary, BinaryKind, Cast, Gated, Rope};

pub(super) fn activation(step: &Step<'_>, op: &Activation, out: &mut [f32]) -> Result<()> {
    let x = step.floats(0)?;
    step.rows(out, 1, 4096).vectorized(inlined!(|first, part| {
        part.copy_from_slice(&x[first..first + part.len()]);
        activate(op, part);
    }));
    Ok(())
}

pub(super) fn binary(step: &Step<'_>, op: &Binary, out: &mut [f32]) -> Result<()> {
    match op.kind {
        BinaryKind::Add => walk(step, out, inlined!(|a, b| canonical(settle(a) + settle(b)))),
        BinaryKind::Subtract => walk(step, out, inlined!(|a, b| canonical(settle(a) - settle(b)))),
        BinaryKind::Multiply => walk(step, out, inlined!(|a, b| canonical(mul(settle(a), settle(b))))),
        BinaryKind::Divide => walk(step, out, inlined!(|a, b| canonical(div(settle(a), settle(b))))),
    }
}

/// Integers as floats, each rounded once.
pub(super) fn cast(step: &Step<'_>, op: &Cast, out: &mut [f32]) -> Result<()> {
    match (step.dtype(0), op.to) {
        (DType::I32 | DType::F32, DType::F32) => kernels::cast::cast(step, op, out),
        (from, to) => Err(refused(&format!("a conversion from {} to {}", from.name(), to.name()))),
    }
}

pub(super) fn gated(step: &Step<'_>, op: &Gated, out: &mut [f32]) -> Result<()> {
    let x = step.floats(0)?;
    let columns = step.shape(0).columns() / 2;
    step.rows(out, columns, 1 + 4096 / columns).each(inlined!(|row, y| {
        let (x1, x2) = x[2 * row * columns..][..2 * columns].split_at(columns);
        y.copy_from_slice(x2);
        activate(&op.0, y);
        y.iter_mut().zip(x1).for_each(|(y, x1)| *y = canonical(mul(settle(*y), settle(*x1))));
    }));
    Ok(())
}

pub(super) fn rope(step: &Step<'_>, op: &Rope, out: &mut [f32]) -> Result<()> {
    let [stored, columns] = head_axes(step.shape(0));
    let (heads, half) = (op.heads.unwrap_or(stored), step.shape(1).columns());
    let [x, cos, sin] = [step.floats(0)?, step.floats(1)?, step.floats(2)?];
    // A table shared by all items of the batch is repeated for each.
    let table = cos.len() / half.max(1);
    step.rows(out, columns, 64).each(inlined!(|place, y| {
        let (row, head) = (place / heads, place % heads);
        if head >= stored {
            return y.fill(0.0);
        }
        let x = &x[(row * stored + head) * columns..][..columns];
        let angle = if table == 0 { 0 } else { row % table * half };
        let (cos, sin) = (&cos[angle..][..half], &sin[angle..][..half]);
        for k in 0..half {
            let [a, b, cos, sin] = [x[k], x[half + k], cos[k], sin[k]].map(settle);
            y[k] = canonical(mul(a, cos) - mul(b, sin));
            y[half + k] = canonical(mul(b, cos) + mul(a, sin));
        }
        y[2 * half..].iter_mut().zip(&x[2 * half..]).for_each(|(y, x)| *y = canonical(settle(*x)));
    }));
    Ok(())
}
