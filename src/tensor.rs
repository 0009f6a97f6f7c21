//! Tensors of a checkpoint in place, the source that provides them, and the recipe from tensors to a constant.

mod encoding;
mod levels;
mod low_rank;
mod not_finite;
mod reading;
mod recipe;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use crate::dtype::DType;
use crate::ops::Levels;
use crate::quant::format::Applied;
use crate::{Error, Result};
pub use encoding::Encoding;
use low_rank::Factors;
pub use low_rank::{LowRank, MOST_RANK};
pub use not_finite::Origin;
pub use recipe::{Part, Recipe};

/// Positions of the elements along an axis.
#[derive(Debug, Clone)]
enum Places {
    Even { first: usize, step: usize, count: usize },
    Listed(Vec<usize>),
}

impl Places {
    fn len(&self) -> usize {
        match self {
            Places::Even { count, .. } => *count,
            Places::Listed(places) => places.len(),
        }
    }

    fn at(&self, index: usize) -> usize {
        match self {
            Places::Even { first, step, .. } => first + index * step,
            Places::Listed(places) => places[index],
        }
    }

    fn gathered(&self, indices: impl IntoIterator<Item = usize>) -> Places {
        Places::Listed(indices.into_iter().map(|index| self.at(index)).collect())
    }
}

/// A tensor of a checkpoint in the mapped file, viewed as a matrix. Reading it is refused where it is not finite.
#[derive(Debug, Clone)]
pub struct TensorView<'a> {
    origin: Option<Origin<'a>>,
    stored: Encoding,
    rounded: DType,
    bytes: Cow<'a, [u8]>,
    rows: Places,
    columns: Places,
    /// Added to the stored numbers before they are rounded.
    added: Option<Arc<Factors<'a>>>,
    /// Applied after rounding, in order.
    changes: Vec<Change>,
    /// Factors of the columns, applied after these; empty for ones.
    columns_by: Arc<[u32]>,
    /// What becomes of the rows in the end.
    rows_as: RowsAs<'a>,
}

/// Rows as they are, as integers by their scales, or as the bytes of the values that another view's rows are.
#[derive(Debug, Clone)]
enum RowsAs<'a> {
    Numbers,
    Integers(Arc<[f32]>),
    Packed(Levels, Arc<TensorView<'a>>),
}

/// A change of each number.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// Times a factor, plus a summand.
    Affine(f32, f32),
    /// Its reciprocal.
    Reciprocal,
    /// The nearest of these values, after the multiplication by a scale.
    Rounded(Levels, f32),
}

impl Change {
    #[inline(always)]
    fn of(self, x: f32) -> f32 {
        match self {
            Change::Affine(factor, summand) => x * factor + summand,
            Change::Reciprocal => 1.0 / x,
            Change::Rounded(levels, scale) => levels::nearest(levels, x * scale),
        }
    }
}

impl<'a> TensorView<'a> {
    /// Elements encoded as `stored` along the axes of `shape`, little endian and possibly unaligned; of uint8 those are
    /// [unpacked](Recipe::Unpacked). Numbers are rounded
    /// to `rounded` before any computation (float32 for no rounding).
    pub fn new(stored: impl Into<Encoding>, rounded: DType, shape: &[usize], bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        let stored = stored.into();
        let rows = shape.first().copied().unwrap_or(1);
        let width = shape.iter().skip(1).product();
        let columns = Places::Even { first: 0, step: 1, count: width };
        let rows = Places::Even { first: 0, step: width, count: rows };
        let (bytes, changes, columns_by, rows_as) = (bytes.into(), Vec::new(), Arc::default(), RowsAs::Numbers);
        TensorView { origin: None, stored, rounded, bytes, rows, columns, added: None, changes, columns_by, rows_as }
    }

    /// The view after a step of a recipe.
    ///
    /// # Errors
    /// `NotFinite` of a step that reads the numbers.
    fn after(self, step: &Recipe) -> Result<Self> {
        Ok(match step {
            Recipe::Transposed => TensorView { rows: self.columns, columns: self.rows, ..self },
            Recipe::Rows(range) => match self.rows {
                Places::Even { first, step, .. } => {
                    let rows = Places::Even { first: first + range.start * step, step, count: range.len() };
                    TensorView { rows, ..self }
                }
                listed => TensorView { rows: listed.gathered(range.clone()), ..self },
            },
            Recipe::Gathered(rows) => TensorView { rows: self.rows.gathered(rows.iter().copied()), ..self },
            Recipe::Folded(each) => {
                let count = self.elements() / (*each).max(1);
                let rows = Places::Even { first: 0, step: *each, count };
                TensorView { rows, columns: Places::Even { first: 0, step: 1, count: *each }, ..self }
            }
            Recipe::Diagonal(groups) => self.diagonal(*groups)?,
            Recipe::PlusOne => self.changed(1.0, 1.0),
            Recipe::Scaled(bits) => self.changed(f32::from_bits(*bits), 0.0),
            Recipe::Shares => {
                let mut values = vec![0.0; self.elements()];
                self.read_f32(0, &mut values)?;
                let sum: f64 = values.into_iter().map(f64::from).sum();
                self.changed((1.0 / sum) as f32, 0.0)
            }
            Recipe::Columns(factors) => TensorView { columns_by: factors.clone(), ..self },
            Recipe::Integers => TensorView { rows_as: RowsAs::Integers(self.scales()?.into()), ..self },
            Recipe::Scales => TensorView::numbers(&self.scales()?),
            Recipe::Unpacked => self.unpacked(),
            Recipe::Rounded(levels) => {
                let scale = if *levels == Levels::Ternary { self.divisors(*levels)?[0] } else { 1.0 };
                self.with(Change::Rounded(*levels, scale))
            }
            Recipe::Divisors(levels) => TensorView::numbers(&self.divisors(*levels)?),
            Recipe::Divisor(Applied::Divides) => self,
            Recipe::Divisor(Applied::Multiplies) => self.with(Change::Reciprocal),
            Recipe::Packed(levels) => self.packed(*levels),
        })
    }

    /// The numbers of each group of rows in columns of their own, zeros elsewhere.
    fn diagonal(self, groups: usize) -> Result<Self> {
        let [rows, columns] = [self.rows.len(), self.columns.len()];
        let mut numbers = vec![0.0; self.elements() * groups];
        for (row, wide) in numbers.chunks_exact_mut((columns * groups).max(1)).enumerate() {
            let group = row / (rows / groups).max(1);
            self.read_f32(row * columns, &mut wide[group * columns..][..columns])?;
        }
        let bytes: Vec<u8> = numbers.into_iter().flat_map(f32::to_le_bytes).collect();
        Ok(TensorView::new(DType::F32, DType::F32, &[rows, columns * groups], bytes))
    }

    /// The scale of each row of integers.
    fn scales(&self) -> Result<Vec<f32>> {
        let mut row = vec![0.0; self.columns.len()];
        let scale = |number: usize| {
            self.read_f32(number * row.len(), &mut row)?;
            Ok(127.0 / row.iter().fold(1e-5f32, |most, x| most.max(x.abs())))
        };
        (0..self.rows.len()).map(scale).collect()
    }

    fn changed(self, factor: f32, summand: f32) -> Self {
        self.with(Change::Affine(factor, summand))
    }

    fn with(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// Whether the file contains all elements.
    pub fn is_whole(&self) -> bool {
        if let RowsAs::Packed(_, values) = &self.rows_as {
            return values.is_whole();
        }
        let end = |places: &Places| match places {
            Places::Even { first, step, count } => first + count.saturating_sub(1) * step,
            Places::Listed(places) => places.iter().copied().max().unwrap_or(0),
        };
        let last = end(&self.rows) + end(&self.columns);
        self.elements() == 0 || self.stored.bytes(last / self.per_byte() + 1) <= self.bytes.len()
    }

    /// Offset of the elements if they can be read from the file unchanged and in order; `None` if not.
    fn contiguous(&self) -> Option<usize> {
        match (&self.rows, &self.columns) {
            (Places::Even { first, step, count }, Places::Even { first: 0, step: 1, count: width })
                if step == width || *count <= 1 =>
            {
                Some(*first)
            }
            _ => None,
        }
    }
}

/// The source of a plan's constants; kept alive by the program, so that a backend may read in place.
pub trait WeightSource: Send + Sync {
    /// The tensor called `name`, whose shape the model has already checked.
    ///
    /// # Errors
    /// `Weights` if there is no tensor of that name.
    fn tensor(&self, name: &str) -> Result<TensorView<'_>>;
}

/// The source for a plan without constants.
pub struct NoWeights;

impl WeightSource for NoWeights {
    fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        Err(Error::InvalidArgument(format!("{name}: the plan has no weights")))
    }
}
