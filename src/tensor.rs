//! Tensors of a checkpoint in place, the source that provides them, and the recipe from tensors to a constant.

mod low_rank;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use crate::dtype::DType;
use crate::{Error, Result};
use low_rank::Factors;
pub use low_rank::{LowRank, MOST_RANK};

/// One tensor of a checkpoint, or a computed table, as a constant reads it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// The float32 elements of a table that is computed and not in the checkpoint, such as the cosines of rotary
    /// positions.
    pub computed: Option<Arc<[u8]>>,
    /// Its axes in the checkpoint; `None` for the axes of the constant.
    pub shape: Option<Vec<usize>>,
    /// What is added to it first.
    pub added: Option<LowRank>,
    /// The steps applied to it, in order. No copy is made: elements are located when they are read.
    pub recipe: Vec<Recipe>,
}

/// A step from a stored tensor, viewed as a matrix whose columns are all axes but the first, to a constant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Recipe {
    /// Swaps rows and columns.
    Transposed,
    /// A range of adjacent rows.
    Rows(Range<usize>),
    /// Rows by index, in any order and with repetitions.
    Gathered(Vec<usize>),
    /// Adds one to every element, in float32.
    PlusOne,
    /// Multiplies every element by the float32 with these bits.
    Scaled(u32),
    /// Divides every element by the sum of all.
    Shares,
    /// Multiplies each column by the float32 with its bits; before the last step.
    Columns(Arc<[u32]>),
    /// Every element times its row's scale, `127 / max(max |x|, 1e-5)`, rounded to the nearest integer, ties to even; the
    /// last step.
    Integers,
    /// The scales of [`Recipe::Integers`], one per row; the last step.
    Scales,
}

impl Recipe {
    /// Multiplies every element by `factor`.
    pub fn scaled(factor: f32) -> Self {
        Recipe::Scaled(factor.to_bits())
    }

    /// Multiplies each column by its factor.
    pub fn columns(factors: &[f32]) -> Self {
        Recipe::Columns(factors.iter().map(|factor| factor.to_bits()).collect())
    }

    /// Reorders rows that are stored per head, each head in `parts` blocks of `rows`, so that they are stored per part:
    /// the queries of all heads, then the keys, then the values.
    pub fn part_by_part(heads: usize, parts: usize, rows: usize) -> Self {
        let row = move |part: usize, head: usize| (0..rows).map(move |row| (head * parts + part) * rows + row);
        Recipe::Gathered((0..parts).flat_map(|part| (0..heads).flat_map(move |head| row(part, head))).collect())
    }
}

impl Part {
    /// A tensor of these axes, with a recipe.
    pub fn new(name: impl Into<String>, shape: &[usize], recipe: Vec<Recipe>) -> Self {
        Part { name: name.into(), computed: None, shape: Some(shape.to_vec()), added: None, recipe }
    }

    /// A table of these axes that is computed and not in the checkpoint.
    pub fn computed(name: impl Into<String>, shape: &[usize], values: impl Iterator<Item = f32>) -> Self {
        let computed = Some(values.flat_map(f32::to_le_bytes).collect());
        Part { computed, ..Part::new(name, shape, Vec::new()) }
    }

    /// Number of rows after the recipe; `None` for a tensor with the axes of the constant.
    pub fn rows(&self) -> Option<usize> {
        let (first, others) = self.shape.as_ref()?.split_first()?;
        let stored = [*first, others.iter().product()];
        let [rows, _] = self.recipe.iter().fold(stored, |[rows, columns], step| match step {
            Recipe::Transposed => [columns, rows],
            Recipe::Rows(range) => [range.len(), columns],
            Recipe::Gathered(chosen) => [chosen.len(), columns],
            Recipe::Scales => [rows, 1],
            Recipe::PlusOne | Recipe::Scaled(_) | Recipe::Shares | Recipe::Columns(_) | Recipe::Integers => {
                [rows, columns]
            }
        });
        Some(rows)
    }

    /// The tensor in `source`.
    ///
    /// # Errors
    /// As [`WeightSource::tensor`].
    pub fn view<'a>(&'a self, source: &'a dyn WeightSource) -> Result<TensorView<'a>> {
        let stored = match (&self.computed, &self.shape) {
            (Some(bytes), Some(shape)) => TensorView::new(DType::F32, DType::F32, shape, bytes),
            _ => source.tensor(&self.name)?,
        };
        let stored = match &self.added {
            Some(product) => stored.plus(product, source)?,
            None => stored,
        };
        Ok(self.recipe.iter().fold(stored, TensorView::after))
    }
}

impl<T: Into<String>> From<T> for Part {
    fn from(name: T) -> Self {
        Part { name: name.into(), computed: None, shape: None, added: None, recipe: Vec::new() }
    }
}

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

/// A tensor of a checkpoint in the mapped file, viewed as a matrix.
#[derive(Debug, Clone)]
pub struct TensorView<'a> {
    stored: DType,
    rounded: DType,
    bytes: &'a [u8],
    rows: Places,
    columns: Places,
    /// Added to the stored numbers before they are rounded.
    added: Option<Arc<Factors<'a>>>,
    /// Factors and addends, in order, applied after rounding.
    changes: Vec<(f32, f32)>,
    /// Factors of the columns, applied after these; empty for ones.
    columns_by: Arc<[u32]>,
    /// What becomes of the rows in the end.
    rows_as: RowsAs,
}

/// Rows as they are, as integers, or as the scales of these.
#[derive(Debug, Clone)]
enum RowsAs {
    Numbers,
    Integers(Arc<[f32]>),
    Scales(Arc<[f32]>),
}

impl<'a> TensorView<'a> {
    /// Elements of type `stored` along the axes of `shape`, little endian and possibly unaligned. Numbers are rounded
    /// to `rounded` before any computation (float32 for no rounding).
    pub fn new(stored: DType, rounded: DType, shape: &[usize], bytes: &'a [u8]) -> Self {
        let rows = shape.first().copied().unwrap_or(1);
        let width = shape.iter().skip(1).product();
        let columns = Places::Even { first: 0, step: 1, count: width };
        let rows = Places::Even { first: 0, step: width, count: rows };
        let (changes, columns_by, rows_as) = (Vec::new(), Arc::default(), RowsAs::Numbers);
        TensorView { stored, rounded, bytes, rows, columns, added: None, changes, columns_by, rows_as }
    }

    /// The view after a step of a recipe.
    fn after(self, step: &Recipe) -> Self {
        match step {
            Recipe::Transposed => TensorView { rows: self.columns, columns: self.rows, ..self },
            Recipe::Rows(range) => match self.rows {
                Places::Even { first, step, .. } => {
                    let rows = Places::Even { first: first + range.start * step, step, count: range.len() };
                    TensorView { rows, ..self }
                }
                listed => TensorView { rows: listed.gathered(range.clone()), ..self },
            },
            Recipe::Gathered(rows) => TensorView { rows: self.rows.gathered(rows.iter().copied()), ..self },
            Recipe::PlusOne => self.changed(1.0, 1.0),
            Recipe::Scaled(bits) => self.changed(f32::from_bits(*bits), 0.0),
            Recipe::Shares => {
                let mut values = vec![0.0; self.elements()];
                self.read_f32(0, &mut values);
                let sum: f64 = values.into_iter().map(f64::from).sum();
                self.changed((1.0 / sum) as f32, 0.0)
            }
            Recipe::Columns(factors) => TensorView { columns_by: factors.clone(), ..self },
            Recipe::Integers => TensorView { rows_as: RowsAs::Integers(self.scales()), ..self },
            Recipe::Scales => {
                let rows_as = RowsAs::Scales(self.scales());
                TensorView { rows_as, columns: Places::Even { first: 0, step: 1, count: 1 }, ..self }
            }
        }
    }

    /// The scale of each row of integers.
    fn scales(&self) -> Arc<[f32]> {
        let mut row = vec![0.0; self.columns.len()];
        let scale = |number: usize| {
            self.read_f32(number * row.len(), &mut row);
            127.0 / row.iter().fold(1e-5f32, |most, x| most.max(x.abs()))
        };
        (0..self.rows.len()).map(scale).collect()
    }

    fn changed(mut self, factor: f32, summand: f32) -> Self {
        self.changes.push((factor, summand));
        self
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// Whether the file contains all elements.
    pub fn is_whole(&self) -> bool {
        let end = |places: &Places| match places {
            Places::Even { first, step, count } => first + count.saturating_sub(1) * step,
            Places::Listed(places) => places.iter().copied().max().unwrap_or(0),
        };
        self.elements() == 0 || self.stored.bytes(end(&self.rows) + end(&self.columns) + 1) <= self.bytes.len()
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

    /// Reads elements from `first` on as `dtype`, as many as fit in `out`.
    pub fn read(&self, first: usize, dtype: DType, out: &mut [u8]) {
        let as_they_are = self.stored.is_narrow()
            && self.stored == dtype
            && [DType::F32, dtype].contains(&self.rounded)
            && self.added.is_none()
            && self.changes.is_empty()
            && self.columns_by.is_empty()
            && matches!(self.rows_as, RowsAs::Numbers);
        if let Some(start) = self.contiguous().filter(|_| as_they_are) {
            return out.copy_from_slice(&self.bytes[self.stored.bytes(start + first)..][..out.len()]);
        }
        if let (DType::F32, Ok(values)) = (dtype, bytemuck::try_cast_slice_mut(out)) {
            return self.read_f32(first, values);
        }
        let mut block = [0.0; 1024];
        for (number, out) in out.chunks_mut(dtype.bytes(block.len())).enumerate() {
            let values = &mut block[..out.len() * 8 / dtype.bits()];
            self.read_f32(first + number * 1024, values);
            dtype.encode(values, out);
        }
    }

    /// Reads elements `first..first + out.len()` as f32.
    pub fn read_f32(&self, first: usize, out: &mut [f32]) {
        if let RowsAs::Scales(scales) = &self.rows_as {
            return out.copy_from_slice(&scales[first..][..out.len()]);
        }
        let stored = self.stored;
        let decode = |start: usize, step: usize, out: &mut [f32]| {
            let bytes = &self.bytes[stored.bytes(start)..];
            match step {
                1 => stored.decode_into(&bytes[..stored.bytes(out.len())], out),
                _ => stored.decode_apart(bytes, step, out),
            }
            match (&self.added, step) {
                (None, _) => {}
                (Some(factors), 1) => factors.add(start, out),
                (Some(factors), _) => {
                    let places = (start..).step_by(step);
                    out.iter_mut().zip(places).for_each(|(value, at)| factors.add(at, std::slice::from_mut(value)));
                }
            }
        };
        let width = self.columns.len();
        match (self.contiguous(), &self.columns) {
            (Some(start), _) => decode(start + first, 1, out),
            // A row, or a part of one, at a time.
            (None, Places::Even { first: start, step, .. }) => {
                let mut rest = &mut *out;
                let mut at = first;
                while !rest.is_empty() {
                    let (row, column) = (at / width, at % width);
                    let (part, others) = rest.split_at_mut((width - column).min(rest.len()));
                    decode(self.rows.at(row) + start + column * step, *step, part);
                    at += part.len();
                    rest = others;
                }
            }
            _ => {
                for (i, value) in out.iter_mut().enumerate() {
                    let at = self.rows.at((first + i) / width) + self.columns.at((first + i) % width);
                    decode(at, 1, std::slice::from_mut(value));
                }
            }
        }
        self.rounded.round(out);
        for (factor, summand) in &self.changes {
            out.iter_mut().for_each(|value| *value = *value * factor + summand);
        }
        if !self.columns_by.is_empty() {
            for (value, at) in out.iter_mut().zip(first..) {
                *value *= f32::from_bits(self.columns_by[at % width]);
            }
        }
        if let RowsAs::Integers(scales) = &self.rows_as {
            for (value, at) in out.iter_mut().zip(first..) {
                *value = (*value * scales[at / width]).round_ties_even().clamp(-128.0, 127.0);
            }
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
