//! Mean and covariance of two sets of rows together, in place.

use crate::backend::cpu::step::Step;
use crate::ops::CombineMoments;
use crate::{Error, Result};

/// Minimum rows per thread.
const LEAST: usize = 64;

pub(super) fn combine_moments(step: &Step<'_>, _: &CombineMoments, results: &mut [&mut [f32]]) -> Result<()> {
    let (difference, other, share) = (step.floats(2)?, step.floats(3)?, step.floats(4)?[0]);
    let [mean, covariance] = results else {
        return Err(Error::InvalidArgument("combine_moments: expected two results".into()));
    };
    let (columns, rest) = (difference.len(), 1.0 - share);
    step.rows(covariance, columns, LEAST).each(inlined!(|row, part| {
        let (own, other) = (difference[row], &other[row * columns..][..columns]);
        for ((covariance, other), across) in part.iter_mut().zip(other).zip(difference) {
            // The product of both differences first, so that the result is symmetric in every bit.
            *covariance = rest * *covariance + share * (other + rest * (own * across));
        }
    }));
    mean.iter_mut().zip(difference).for_each(|(mean, difference)| *mean += share * difference);
    Ok(())
}
