//! From weights and their gradients to those of the scores.

use pulp::{Simd, WithSimd};

use crate::backend::cpu::simd;

/// `weights = factor weights`, `slopes = weights (slopes - d) (1 - tanh(scores / soft_cap)^2)`, row by row.
pub(super) struct Slopes<'a> {
    /// Columns of a row, and those in use: whole vectors.
    pub(super) stride: usize,
    pub(super) columns: usize,
    pub(super) weights: &'a mut [f32],
    pub(super) slopes: &'a mut [f32],
    /// Scores before the soft cap; without one they are not read.
    pub(super) scores: &'a [f32],
    pub(super) soft_cap: f32,
    /// One per row.
    pub(super) factors: &'a [f32],
    pub(super) d: &'a [f32],
}

impl WithSimd for Slopes<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let rows = self.weights.chunks_exact_mut(self.stride).zip(self.slopes.chunks_exact_mut(self.stride));
        for (i, ((weights, slopes), (factor, d))) in rows.zip(self.factors.iter().zip(self.d)).enumerate() {
            let (factor, d) = (simd.splat_f32s(*factor), simd.splat_f32s(*d));
            let weights = S::as_mut_simd_f32s(&mut weights[..self.columns]).0;
            let slopes = S::as_mut_simd_f32s(&mut slopes[..self.columns]).0;
            for (weight, slope) in weights.iter_mut().zip(slopes.iter_mut()) {
                *weight = simd.mul_f32s(*weight, factor);
                *slope = simd.mul_f32s(*weight, simd.sub_f32s(*slope, d));
            }
            if self.soft_cap > 0.0 {
                let (cap, one) = (simd.splat_f32s(self.soft_cap), simd.splat_f32s(1.0));
                let scores = S::as_simd_f32s(&self.scores[i * self.stride..][..self.columns]).0;
                for (slope, score) in slopes.iter_mut().zip(scores) {
                    let t = simd::tanh(simd, simd.div_f32s(*score, cap));
                    // (1 - t) (1 + t): 1 - t^2 cancels near 1.
                    let slant = simd.mul_f32s(simd.sub_f32s(one, t), simd.add_f32s(one, t));
                    *slope = simd.mul_f32s(*slope, slant);
                }
            }
        }
    }
}
