//! `y = -(t max(log p, -100) + (1 - t) max(log(1 - p), -100))`

use crate::Result;
use crate::backend::cpu::step::Step;
use crate::graph::ValueId;

pub(super) fn run(step: &Step<'_>, operands: &[ValueId], out: &mut [f32]) -> Result<()> {
    let (p, t) = (step.floats(operands[0])?, step.floats(operands[1])?);
    // Comparisons are false for NaN, which stays.
    let bounded = |log: f64| if log < -100.0 { -100.0 } else { log };
    step.team.rows(out, 1, 1024, |first, part| {
        for ((y, p), t) in part.iter_mut().zip(&p[first..]).zip(&t[first..]) {
            let (p, t) = (f64::from(*p), f64::from(*t));
            *y = -(t * bounded(p.ln()) + (1.0 - t) * bounded((-p).ln_1p())) as f32;
        }
    });
    Ok(())
}
