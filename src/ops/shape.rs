//! Shapes whose leading axis may be counted per batch: tokens, texts, the boundaries between texts, or rows of another
//! kind.

use crate::{Error, Result};

/// The sizes that vary from batch to batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Counts {
    /// Tokens of all texts in the batch.
    pub tokens: usize,
    /// Texts in the batch.
    pub texts: usize,
    /// Sizes of [`Dim::Counted`], by number.
    pub others: [usize; Counts::OTHERS],
}

impl Counts {
    /// Number of sizes beside tokens and texts; `others` of `shaders/include/counts.glsl`.
    pub const OTHERS: usize = 6;

    /// The counts of a batch without other sizes.
    ///
    /// ```
    /// use grilly::ops::{Counts, Dim};
    /// let counts = Counts::new(7, 2).with(1, 30);
    /// assert_eq!((Dim::Tokens.size(counts), Dim::Counted(1).size(counts)), (7, 30));
    /// ```
    pub const fn new(tokens: usize, texts: usize) -> Self {
        Counts { tokens, texts, others: [0; Counts::OTHERS] }
    }

    /// The same counts with another size of [`Dim::Counted`].
    ///
    /// # Panics
    /// If the number is not less than [`Counts::OTHERS`].
    pub const fn with(mut self, number: usize, size: usize) -> Self {
        self.others[number] = size;
        self
    }

    /// Sets what determines the size of an axis; nothing does that of a fixed one, and no single count a text's length.
    pub fn set(&mut self, dim: Dim, size: usize) {
        match dim {
            Dim::Tokens => self.tokens = size,
            Dim::Texts => self.texts = size,
            Dim::Boundaries => self.texts = size.saturating_sub(1),
            Dim::Counted(number) => self.others[number] = size,
            Dim::Fixed(_) | Dim::Length | Dim::LengthOf(_) => {}
        }
    }

    /// All sizes.
    pub fn all(self) -> impl Iterator<Item = usize> {
        [self.tokens, self.texts].into_iter().chain(self.others)
    }

    /// All sizes as the words of `shaders/include/counts.glsl`.
    pub fn words(self) -> [u32; 2 + Counts::OTHERS] {
        let mut words = [0; 2 + Counts::OTHERS];
        words.iter_mut().zip(self.all()).for_each(|(word, size)| *word = size as u32);
        words
    }
}

/// The size of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dim {
    /// Fixed when the plan is made.
    Fixed(usize),
    /// The batch's tokens, `T`.
    Tokens,
    /// The batch's texts, `B`.
    Texts,
    /// The boundaries between texts, `B + 1`: text `i` owns tokens `offsets[i]..offsets[i + 1]`.
    Boundaries,
    /// The tokens of each text, `S`, in a batch whose texts all have the same length.
    Length,
    /// Rows that are neither tokens nor texts, `R<number>`: tokens of a second sequence, rows routed to an expert, rows
    /// of a cache. The number is less than [`Counts::OTHERS`].
    Counted(usize),
    /// The rows of [`Dim::Counted`] of each text, `S<number>`, in a batch whose texts all have equally many.
    LengthOf(usize),
}

impl Dim {
    /// The size of the axis in a batch.
    pub fn size(self, counts: Counts) -> usize {
        match self {
            Dim::Fixed(n) => n,
            Dim::Tokens => counts.tokens,
            Dim::Texts => counts.texts,
            Dim::Boundaries => counts.texts + 1,
            Dim::Length => counts.tokens / counts.texts.max(1),
            Dim::Counted(number) => counts.others[number],
            Dim::LengthOf(number) => counts.others[number] / counts.texts.max(1),
        }
    }

    /// The number of rows of each text, of rows that texts have; itself for others.
    pub fn per_text(self) -> Dim {
        match self {
            Dim::Tokens => Dim::Length,
            Dim::Counted(number) => Dim::LengthOf(number),
            other => other,
        }
    }

    /// Whether it is the number of rows of each text.
    pub fn is_length(self) -> bool {
        matches!(self, Dim::Length | Dim::LengthOf(_))
    }
}

impl std::fmt::Display for Dim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Dim::Fixed(n) => write!(f, "{n}"),
            Dim::Tokens => f.write_str("T"),
            Dim::Texts => f.write_str("B"),
            Dim::Boundaries => f.write_str("B+1"),
            Dim::Length => f.write_str("S"),
            Dim::Counted(number) => write!(f, "R{number}"),
            Dim::LengthOf(number) => write!(f, "S{number}"),
        }
    }
}

impl std::str::FromStr for Dim {
    type Err = Error;

    /// The axis that is displayed so.
    ///
    /// ```
    /// use grilly::ops::Dim;
    /// let axes = ["7", "T", "R2", "S2"].map(|axis| axis.parse::<Dim>().unwrap());
    /// assert_eq!(axes, [Dim::Fixed(7), Dim::Tokens, Dim::Counted(2), Dim::LengthOf(2)]);
    /// ```
    fn from_str(text: &str) -> Result<Self> {
        let counted = (0..Counts::OTHERS).flat_map(|number| [Dim::Counted(number), Dim::LengthOf(number)]);
        let mut known = [Dim::Tokens, Dim::Texts, Dim::Boundaries, Dim::Length].into_iter().chain(counted);
        let named = known.find(|dim| dim.to_string() == text);
        named.or_else(|| text.parse().ok().map(Dim::Fixed)).ok_or_else(|| {
            Error::InvalidArgument(format!("an axis is {text:?}, expected a size, T, B, B+1, S, R0 to R5, or S0 to S5"))
        })
    }
}

/// Axes, slowest first; rows are contiguous.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shape(pub Vec<Dim>);

impl Shape {
    /// `[rows, columns]`.
    pub fn matrix(rows: Dim, columns: usize) -> Self {
        Shape(vec![rows, Dim::Fixed(columns)])
    }

    /// `[n]`.
    pub fn vector(n: Dim) -> Self {
        Shape(vec![n])
    }

    /// The same shape with a last axis of `columns`.
    pub(crate) fn with_columns(&self, columns: usize) -> Self {
        let leading = self.0.split_last().map_or(&[][..], |(_, leading)| leading);
        Shape([leading, &[Dim::Fixed(columns)]].concat())
    }

    /// A shape of fixed axes.
    pub fn fixed(dims: &[usize]) -> Self {
        Shape(dims.iter().map(|&n| Dim::Fixed(n)).collect())
    }

    /// Size of the last axis when it is fixed; 1 for an empty shape.
    pub fn columns(&self) -> usize {
        match self.0.last() {
            Some(Dim::Fixed(n)) => *n,
            _ => 1,
        }
    }

    /// The first axis.
    pub fn rows(&self) -> Dim {
        self.0.first().copied().unwrap_or(Dim::Fixed(1))
    }

    /// Elements per index of the first axis; all later axes are fixed.
    pub fn row_elements(&self) -> usize {
        self.0.iter().skip(1).map(|dim| dim.size(Counts::default())).product()
    }

    /// All axes, for an op on operands without axes counted by the batch.
    ///
    /// # Errors
    /// `InvalidArgument` naming op and operand when the batch counts an axis.
    pub fn fixed_axes(&self, op: &str, operand: &str) -> Result<Vec<usize>> {
        let size = |dim: &Dim| match dim {
            Dim::Fixed(n) => Ok(*n),
            _ => Err(Error::InvalidArgument(format!("{op}: {operand} has shape {self}, expected axes of known size"))),
        };
        self.0.iter().map(size).collect()
    }

    /// Rows and columns, with all axes but the last merged; `None` where the batch counts an axis.
    pub fn as_rows(&self) -> Option<(usize, usize)> {
        let fixed = self.0.iter().all(|dim| matches!(dim, Dim::Fixed(_)));
        let (_, leading) = self.0.split_last()?;
        fixed.then(|| (leading.iter().map(|dim| dim.size(Counts::default())).product(), self.columns()))
    }

    /// The shape `[rows, columns]` with all axes but the last merged; `None` where the batch counts one of more than two.
    pub fn flat(&self) -> Option<Self> {
        match self.0[..] {
            [_, Dim::Fixed(_)] => Some(self.clone()),
            _ => self.as_rows().map(|(rows, columns)| Shape::fixed(&[rows, columns])),
        }
    }

    /// Sizes of all axes in a batch.
    pub fn sizes(&self, counts: Counts) -> Vec<usize> {
        self.0.iter().map(|dim| dim.size(counts)).collect()
    }

    /// Number of elements in a batch.
    pub fn elements(&self, counts: Counts) -> usize {
        self.0.iter().map(|d| d.size(counts)).product()
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let axes: Vec<String> = self.0.iter().map(Dim::to_string).collect();
        write!(f, "[{}]", axes.join(", "))
    }
}
