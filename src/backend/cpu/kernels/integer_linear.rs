//! `y[m, n] = sum_k q[m, k] weight[n, k]` in integers.

use std::borrow::Cow;

use crate::Result;
use crate::backend::cpu::simd::{INTEGER_ROWS, multiply_integers, pack_integers};
use crate::backend::cpu::step::Step;
use crate::ops::{IntegerLinear, Levels};

/// The integers of a weight `[N, K]`.
pub(super) struct Weight<'a> {
    levels: Levels,
    bytes: &'a [u8],
    row_bytes: usize,
    /// The number of rows.
    pub n: usize,
    /// The number of columns.
    pub k: usize,
}

impl<'a> Weight<'a> {
    /// The operand at a place, as the weight of a product with rows of `k`.
    pub fn of(step: &Step<'a>, levels: Levels, place: usize, k: usize) -> Result<Self> {
        let (bytes, row_bytes) = (bytemuck::cast_slice(step.words(place)?), levels.bytes(k));
        Ok(Weight { levels, bytes, row_bytes, n: step.shape(place).rows().size(step.counts), k })
    }

    /// Row `n`, unpacked into `own` if it is packed.
    #[inline(always)]
    pub fn row<'b>(&'b self, n: usize, own: &'b mut Vec<i8>) -> &'b [i8] {
        let row = &self.bytes[n * self.row_bytes..][..self.row_bytes];
        if self.levels == Levels::Int8 {
            return bytemuck::cast_slice(row);
        }
        own.resize(self.k, 0);
        for (part, byte) in own.chunks_mut(self.levels.per_byte()).zip(row) {
            for (column, value) in part.iter_mut().enumerate() {
                *value = self.levels.value(&[*byte], column);
            }
        }
        own
    }

    /// All rows.
    fn rows(&self) -> Cow<'a, [i8]> {
        if self.levels == Levels::Int8 {
            return Cow::Borrowed(&bytemuck::cast_slice(self.bytes)[..self.n * self.k]);
        }
        let (mut all, mut own) = (Vec::with_capacity(self.n * self.k), Vec::new());
        (0..self.n).for_each(|n| all.extend_from_slice(self.row(n, &mut own)));
        Cow::Owned(all)
    }
}

/// The exact sum of products.
#[inline(always)]
pub(super) fn dot(q: &[i8], weight: &[i8]) -> i32 {
    q.iter().zip(weight).map(|(q, w)| i32::from(*q) * i32::from(*w)).sum()
}

/// All sums, as the bits of `out`.
pub(super) fn sums(step: &Step<'_>, q: &[i8], weight: &Weight<'_>, out: &mut [f32]) {
    let (n, k) = (weight.n.max(1), weight.k);
    let rows = out.len() / n;
    if let (Some(unit), true) = (step.arch.bytes(), k > 0 && rows >= INTEGER_ROWS) {
        let panels = pack_integers(&weight.rows(), n, k);
        step.team.rows(out, n, INTEGER_ROWS, |first, part| {
            let y: &mut [i32] = bytemuck::cast_slice_mut(part);
            let q = &q[first * k..][..y.len() / n * k];
            multiply_integers(unit, q, k, &panels, n, |row, column, sums| {
                y[row * n + column..][..sums.len()].copy_from_slice(sums);
            });
        });
        return;
    }
    step.rows(out, n, 4).vectorized(
        #[inline(always)]
        |first, part| {
            let (y, mut own) = (bytemuck::cast_slice_mut::<f32, i32>(part), Vec::new());
            for column in 0..weight.n {
                let weight = weight.row(column, &mut own);
                for (row, y) in (first..).zip(y.chunks_exact_mut(n)) {
                    y[column] = dot(&q[row * k..][..k], weight);
                }
            }
        },
    );
}

pub(super) fn integer_linear(step: &Step<'_>, op: &IntegerLinear, out: &mut [f32]) -> Result<()> {
    let weight = Weight::of(step, op.levels, 1, step.shape(0).columns())?;
    sums(step, bytemuck::cast_slice(step.words(0)?), &weight, out);
    Ok(())
}
