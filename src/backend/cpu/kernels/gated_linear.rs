//! `y = act(x gate^T) (x up^T)`, some rows at a time, so that no second result is stored.

use super::linear::packed;
use crate::Result;
use crate::backend::cpu::floats::Floats;
use crate::backend::cpu::matmul::{Epilogue, multiply};
use crate::backend::cpu::step::Step;
use crate::ops::GatedLinear;

/// Number of rows whose gates are stored at a time.
const ROWS: usize = 256;

pub(super) fn gated_linear(step: &Step<'_>, op: &GatedLinear, (out, scratch): (&mut [f32], &mut Floats)) -> Result<()> {
    let x = step.floats(0)?;
    let (depth, columns) = (step.shape(1).columns(), step.shape(1).rows().size(step.counts));
    let (mut own_gate, mut own_up) = (Vec::new(), Vec::new());
    let gate = packed(step, 1, &mut own_gate)?;
    let up = packed(step, 2, &mut own_up)?;
    scratch.resize((ROWS * columns).min(out.len()), "gates")?;
    for (number, out) in out.chunks_mut((ROWS * columns).max(1)).enumerate() {
        let x = &x[number * ROWS * depth..];
        let gates = &mut scratch[..out.len()];
        let epilogue = Epilogue { activation: Some(op.kind), ..Epilogue::default() };
        multiply(step.arch, step.team, x, gate, epilogue, gates)?;
        multiply(step.arch, step.team, x, up, Epilogue::default(), out)?;
        out.iter_mut().zip(&*gates).for_each(|(y, gate)| *y *= gate);
    }
    Ok(())
}
