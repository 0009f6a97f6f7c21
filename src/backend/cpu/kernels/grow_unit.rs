//! A new unit in the direction of the largest residual.

use crate::backend::cpu::step::Step;
use crate::ops::GrowUnit;
use crate::{Error, Result};

pub(super) fn grow_unit(step: &Step<'_>, op: &GrowUnit, results: &mut [&mut [f32]]) -> Result<()> {
    let (residual, energy) = (step.floats(2)?, step.floats(3)?);
    let (left, total) = (step.floats(4)?[0], step.floats(5)?[0]);
    let (capacity, columns) = (step.shape(0).rows().size(step.counts), step.shape(0).columns());
    let [weight, units, share] = results else {
        return Err(Error::InvalidArgument("grow_unit: expected three results".into()));
    };
    share[0] = if total > 0.0 { left / total } else { 0.0 };
    // The first of equal energies; none of NaN.
    let (mut place, mut most) = (0, 0.0);
    for (row, energy) in energy.iter().enumerate().filter(|(_, energy)| **energy > 0.0) {
        if *energy > most {
            (place, most) = (row, *energy);
        }
    }
    let fits = units[0] >= 0.0 && units[0] < capacity as f32;
    if left > op.threshold * total && fits && most > 0.0 {
        let (unit, norm) = (units[0] as usize, most.sqrt());
        let row = &residual[place * columns..][..columns];
        weight[unit * columns..][..columns].iter_mut().zip(row).for_each(|(weight, x)| *weight = x / norm);
        units[0] += 1.0;
    }
    Ok(())
}
