//! The constants of a graph as recipes: the tensors that they are made of, and the steps applied to each.

use std::ops::Range;
use std::sync::Arc;

use super::{LowRank, TensorView, WeightSource};
use crate::Result;
use crate::dtype::DType;
use crate::ops::Levels;
use crate::process::memory::reserved;
use crate::quant::format::Applied;

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
    /// Rows cut into several of so many columns; before any other step.
    Folded(usize),
    /// Rows in so many equal groups, each of columns of its own: the rest of a row is zeros.
    Diagonal(usize),
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
    /// Ternary values stored as [`Format::HuggingFace`](crate::quant::Format), as numbers; the first step.
    Unpacked,
    /// Every element as the nearest of these values: ternary by the scale of [`Recipe::Divisors`], or its sign, -1 of 0.
    Rounded(Levels),
    /// What divides the values of [`Recipe::Rounded`], the reciprocal of a mean magnitude, at least 1e-5: of ternary ones
    /// that of all elements, `[1]`, of signs one per row.
    Divisors(Levels),
    /// A stored scale of values as what divides them: itself, or its reciprocal.
    Divisor(Applied),
    /// Values as bytes, as kernels read them ([`Format`](crate::quant::Format)), each row in whole bytes; the last step.
    Packed(Levels),
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

    /// Reorders rows that are stored per head, each head in pairs of neighbours, so that the first rows of all its pairs come
    /// before the second ones.
    pub fn halves(heads: usize, rows: usize) -> Self {
        let of = |head: usize| (0..2).flat_map(move |half| (half..rows).step_by(2).map(move |row| head * rows + row));
        Recipe::Gathered((0..heads).flat_map(of).collect())
    }
}

impl Part {
    /// A tensor of these axes, with a recipe.
    pub fn new(name: impl Into<String>, shape: &[usize], recipe: Vec<Recipe>) -> Self {
        Part { name: name.into(), computed: None, shape: Some(shape.to_vec()), added: None, recipe }
    }

    /// A table of these axes that is computed and not in the checkpoint, of any size.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn table(name: impl Into<String>, shape: &[usize], values: impl Iterator<Item = f32>) -> Result<Self> {
        let name = name.into();
        let bytes = shape.iter().fold(4usize, |bytes, axis| bytes.saturating_mul(*axis));
        let mut computed = reserved(bytes, &name)?;
        computed.extend(values.flat_map(f32::to_le_bytes));
        Ok(Part { computed: Some(computed.into()), ..Part::new(name, shape, Vec::new()) })
    }

    /// As [`Part::table`], of few numbers.
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
            Recipe::Folded(each) => [rows * columns / (*each).max(1), *each],
            Recipe::Diagonal(groups) => [rows, groups * columns],
            Recipe::Unpacked => [4 * rows, columns],
            Recipe::Divisors(Levels::Ternary) => [1, 1],
            Recipe::Scales | Recipe::Divisors(_) => [rows, 1],
            _ => [rows, columns],
        });
        Some(rows)
    }

    /// The tensor in `source`.
    ///
    /// # Errors
    /// As [`WeightSource::tensor`] and [`TensorView::read_f32`].
    pub fn view<'a>(&'a self, source: &'a dyn WeightSource) -> Result<TensorView<'a>> {
        let stored = match (&self.computed, &self.shape) {
            (Some(bytes), Some(shape)) => TensorView::new(DType::F32, DType::F32, shape, &**bytes),
            _ => source.tensor(&self.name)?,
        };
        let stored = match &self.added {
            Some(product) => stored.plus(product, source)?,
            None => stored,
        };
        self.recipe.iter().try_fold(stored, TensorView::after)
    }
}

impl<T: Into<String>> From<T> for Part {
    fn from(name: T) -> Self {
        Part { name: name.into(), computed: None, shape: None, added: None, recipe: Vec::new() }
    }
}
