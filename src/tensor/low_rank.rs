//! Products of small matrices that are added to stored tensors, as adapters have them.

use std::sync::Arc;

use super::{Recipe, TensorView, WeightSource};
use crate::dtype::DType;
use crate::{Error, Result};

/// Maximum [`LowRank::rank`].
pub const MOST_RANK: usize = 256;
/// Columns that are summed at once.
const COLUMNS: usize = 64;

/// A product of two other tensors, times a factor: `scale * left[set] right[set]`, of one of several sets of factors.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LowRank {
    /// Name of the tensor `[sets, rows, rank]`.
    pub left: String,
    /// Name of the tensor `[sets, rank, columns]`.
    pub right: String,
    /// Number of sets.
    pub sets: usize,
    /// The set that is used.
    pub set: usize,
    /// Columns of a left factor, and rows of a right one.
    pub rank: usize,
    /// Bits of the float32 factor.
    pub scale: u32,
}

impl LowRank {
    /// Names and axes of its tensors, for a sum of these rows and columns.
    pub fn tensors(&self, rows: usize, columns: usize) -> [(&str, [usize; 3]); 2] {
        [(&self.left, [self.sets, rows, self.rank]), (&self.right, [self.sets, self.rank, columns])]
    }
}

/// The factors of a product that is added to a stored tensor.
#[derive(Debug)]
pub(super) struct Factors<'a> {
    left: TensorView<'a>,
    /// `[rank, columns]`.
    right: Vec<f32>,
    rank: usize,
    columns: usize,
    scale: f32,
}

impl Factors<'_> {
    /// Adds to `out` the elements from `first` on: `scale * sum over k of left[row, k] right[k, column]`, k upwards.
    ///
    /// # Errors
    /// As [`TensorView::read_f32`].
    pub(super) fn add(&self, first: usize, out: &mut [f32]) -> Result<()> {
        let (mut at, mut rest) = (first, out);
        let mut left = [0.0; MOST_RANK];
        while !rest.is_empty() {
            let (row, column) = (at / self.columns, at % self.columns);
            let mut sums = [0.0; COLUMNS];
            let count = rest.len().min(self.columns - column).min(COLUMNS);
            let left = &mut left[..self.rank];
            self.left.read_f32(row * self.rank, left)?;
            for (factor, right) in left.iter().zip(self.right.chunks(self.columns)) {
                for (sum, value) in sums.iter_mut().zip(&right[column..column + count]) {
                    *sum += factor * value;
                }
            }
            let (part, others) = rest.split_at_mut(count);
            part.iter_mut().zip(&sums).for_each(|(value, sum)| *value += self.scale * sum);
            (at, rest) = (at + count, others);
        }
        Ok(())
    }
}

impl<'a> TensorView<'a> {
    /// The whole stored tensor plus a product, whose factors are in `source`; only the sum is rounded.
    ///
    /// # Errors
    /// As [`WeightSource::tensor`] and [`TensorView::read_f32`]; `InvalidArgument` for factors of other sizes.
    pub(super) fn plus(self, product: &LowRank, source: &'a dyn WeightSource) -> Result<Self> {
        let (rows, columns) = (self.rows.len(), self.columns.len());
        let [left, right] = product.tensors(rows, columns).map(|(name, axes)| {
            let whole = TensorView { rounded: DType::F32, ..source.tensor(name)? };
            let fits = whole.elements() == axes.iter().product::<usize>() && whole.is_whole();
            match fits && product.set < product.sets && product.rank <= MOST_RANK {
                true => whole.after(&Recipe::Rows(product.set..product.set + 1)),
                false => {
                    Err(Error::InvalidArgument(format!("{name} is not a factor of rank {}: {axes:?}", product.rank)))
                }
            }
        });
        let (left, view) = (left?, right?);
        let mut right = vec![0.0; view.elements()];
        view.read_f32(0, &mut right)?;
        let factors = Factors { left, right, rank: product.rank, columns, scale: f32::from_bits(product.scale) };
        Ok(TensorView { added: Some(Arc::new(factors)), ..self })
    }
}
