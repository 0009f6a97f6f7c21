//! What the specification of a model consists of: tables, norms, positions and products.

use crate::ops::Levels;
use crate::quant::format::Applied;

/// A kind of norm; weights and bias are its tensors `.weight` and `.bias`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NormKind {
    /// Layer norm, with a bias as BERT's or without as ModernBERT's.
    Layer {
        /// Whether it has a bias.
        bias: bool,
    },
    /// By the root mean square, as T5.
    #[default]
    Rms,
    /// The same, times one more than the stored weight, as Gemma.
    RmsPlusOne,
    /// No norm: times the weight, plus the bias, as MobileBERT's.
    Affine,
}

/// The places of a part's norms in `x + f(x)`, by name; `None` for a place without one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Norms {
    /// Of the part's operand, `x + f(norm(x))`, as GPT-2.
    pub before: Option<String>,
    /// Of the part's result, `x + norm(f(x))`, as Gemma.
    pub after: Option<String>,
    /// Of the sum, `norm(x + f(x))`, as BERT.
    pub sum: Option<String>,
}

impl Norms {
    /// One norm of the sum.
    pub fn sum(name: impl Into<String>) -> Self {
        Norms { sum: Some(name.into()), ..Norms::default() }
    }

    /// One norm of the operand.
    pub fn before(name: impl Into<String>) -> Self {
        Norms { before: Some(name.into()), ..Norms::default() }
    }
}

/// How a token's position in its text enters the embedding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Positions {
    /// By a learned table, added to the word's embedding.
    Learned {
        /// The table.
        table: Table,
        /// The row of each token.
        rows: PositionRows,
    },
    /// Not at all; only the layers know positions.
    None {
        /// Maximum tokens of a text.
        longest: usize,
    },
}

/// Row numbers of a text's tokens in the position table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PositionRows {
    /// 0, 1, 2, ... as in BERT.
    Counted,
    /// `pad + n` for the n-th token other than the padding token `pad`, counted from 1; `pad` for the padding token
    /// itself, which a text may contain. As in RoBERTa's `create_position_ids_from_input_ids`.
    AfterPadding {
        /// Id of the padding token.
        pad: u32,
    },
    /// Counted from 0 in a text of up to `most` tokens, and from `most` in a longer one.
    ByLength {
        /// Tokens of the longest text that has the first rows.
        most: u32,
    },
}

impl PositionRows {
    /// The row of each token of a text.
    pub fn of(self, ids: &[u32]) -> Vec<u32> {
        match self {
            PositionRows::Counted => (0..ids.len() as u32).collect(),
            PositionRows::ByLength { most } => {
                let first = if ids.len() > most as usize { most } else { 0 };
                (first..first + ids.len() as u32).collect()
            }
            PositionRows::AfterPadding { pad } => {
                let mut row = pad;
                let mut next = |id: &u32| {
                    row += u32::from(*id != pad);
                    if *id == pad { pad } else { row }
                };
                ids.iter().map(&mut next).collect()
            }
        }
    }
}

impl Default for Positions {
    fn default() -> Self {
        Positions::None { longest: i32::MAX as usize }
    }
}

impl Positions {
    /// Maximum tokens of a text, for any tokens.
    pub fn longest_text(&self) -> usize {
        match self {
            Positions::Learned { table, rows: PositionRows::Counted } => table.rows,
            Positions::Learned { table, rows: PositionRows::AfterPadding { pad } } => {
                table.rows.saturating_sub(*pad as usize + 1)
            }
            Positions::Learned { table, rows: PositionRows::ByLength { most } } => {
                table.rows.saturating_sub(*most as usize)
            }
            Positions::None { longest } => *longest,
        }
    }

    /// Whether padding before a text would change its positions in the reference, which counts from the start of a row.
    pub fn count_padding(&self) -> bool {
        match self {
            Positions::Learned { rows, .. } => !matches!(rows, PositionRows::AfterPadding { .. }),
            Positions::None { .. } => false,
        }
    }
}

/// An embedding table: `[rows, embedding]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// Name in the checkpoint.
    pub name: String,
    /// Rows.
    pub rows: usize,
}

/// Storage order of a product's matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// `[columns of the result, columns of x]`, as in torch's `Linear`.
    #[default]
    ByResult,
    /// `[columns of x, columns of the result]`, as in GPT-2's `Conv1D`.
    ByOperand,
    /// By result, queries, keys and values of the first head, then of the second, as in GPT-NeoX.
    ByHead,
    /// By result, the gate's rows before the rows that it gates, as in ModernBERT.
    GateFirst,
    /// By result, columns of a head that turn together side by side, as in RoFormer.
    Neighbours,
    /// By result, where the operand has its columns so.
    OfNeighbours,
    /// By result, of so many groups of equally many results, each of which is of as many columns of `x`:
    /// `[results, columns of x / groups, 1]`, as in SqueezeBERT's convolutions of width 1.
    Grouped(usize),
    /// By operand, of as many groups: `[groups, columns of x / groups, results / groups]`, as in ConvBERT.
    GroupedByOperand(usize),
    /// By result, the columns from `first` on of a matrix with `of` columns, each result of which is a sum of several products.
    Columns {
        /// The first column.
        first: usize,
        /// All columns of the matrix.
        of: usize,
    },
}

/// A product of a layer: one tensor, or several stacked in this order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Product {
    /// Names without `.weight` and `.bias`.
    pub names: Vec<String>,
    /// Whether it has biases.
    pub bias: bool,
    /// Names of the biases of its blocks of results, `None` for zeros; empty for `.bias` of `names`.
    pub biases: Vec<Option<String>>,
    /// Storage order of the matrix.
    pub order: Order,
    /// Norms by the root mean square of what is multiplied, one for each tensor; empty for none.
    pub norms: Vec<String>,
    /// What the matrix consists of.
    pub matrix: Matrix,
}

/// A part that adds to `x` its products with few columns between them, `x + up(act(down x))`, as an adapter (Houlsby et al.
/// 2019).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bottleneck {
    /// Columns between the two products.
    pub columns: usize,
    /// First product, `[columns, hidden]`.
    pub down: Product,
    /// Second product, `[hidden, columns]`.
    pub up: Product,
    /// Norms of the part.
    pub norms: Norms,
}

/// The product that gives words' vectors the columns of the hidden state before positions and segments are added.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WordProjection {
    /// Its name.
    pub name: String,
    /// Whether it reads the vectors of the next word, the word and the one before it, side by side; zeros where there is none.
    pub neighbours: bool,
}

/// What the matrix of a product consists of. Rows that meet integers are integers, too: of 8 bits, with a scale for each
/// token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Matrix {
    /// The stored numbers.
    #[default]
    Numbers,
    /// Integers of few bits to which the stored numbers are rounded: ternary ones with one scale (W1.58A8), or signs with
    /// one for each row.
    Rounded(Levels),
    /// Ternary integers with one scale, to which the numbers are rounded in every step of training; gradients go straight
    /// through the rounding.
    Trained,
    /// Ternary integers, stored as [`Format::HuggingFace`](crate::quant::Format), and their scale `NAME.weight_scale`.
    Packed(Applied),
}

impl Product {
    /// A product with biases, stored as torch's `Linear`.
    pub fn biased<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Product { names: names.into_iter().map(Into::into).collect(), bias: true, ..Product::default() }
    }

    /// A product without biases, stored as torch's `Linear`.
    pub fn plain<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Product { bias: false, ..Product::biased(names) }
    }

    /// The products of one `x`, each of one tensor, as one.
    pub fn joined<'a>(products: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut joined = Product::default();
        for product in products {
            let bias = |name: &String| product.bias.then(|| format!("{name}.bias"));
            joined.biases.extend(product.names.iter().map(bias));
            joined.names.extend(product.names.iter().cloned());
            joined.bias |= product.bias;
        }
        joined
    }

    /// The product with one of the tensors alone.
    pub fn part(&self, place: usize) -> Self {
        let norms = self.norms.get(place).cloned().into_iter().collect();
        let biases = self.biases.get(place).cloned().into_iter().collect();
        Product { names: vec![self.names[place].clone()], norms, biases, ..self.clone() }
    }

    /// Whether its tensors meet different numbers, and so are products of their own.
    pub fn is_apart(&self) -> bool {
        self.norms.len() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(rows: PositionRows) -> Positions {
        Positions::Learned { table: Table { name: "positions".into(), rows: 10 }, rows }
    }

    #[test]
    fn rows_are_counted_over_tokens_that_are_not_padding() {
        let bert = learned(PositionRows::Counted);
        assert_eq!((PositionRows::Counted.of(&[7, 1, 1, 7]), bert.longest_text()), (vec![0, 1, 2, 3], 10));
        let roberta = PositionRows::AfterPadding { pad: 1 };
        assert_eq!((roberta.of(&[0, 8, 1, 9, 1, 2]), learned(roberta).longest_text()), (vec![2, 3, 1, 4, 1, 5], 8));
        let other = PositionRows::AfterPadding { pad: 4 };
        assert_eq!((other.of(&[4, 4, 5]), learned(other).longest_text()), (vec![4, 4, 5], 5));
        let long = PositionRows::ByLength { most: 2 };
        assert_eq!(
            (long.of(&[4, 4]), long.of(&[4, 4, 5]), learned(long).longest_text()),
            (vec![0, 1], vec![2, 3, 4], 8)
        );
        let counting = [bert, learned(roberta), learned(long), Positions::None { longest: 9 }];
        assert_eq!(counting.map(|positions| positions.count_padding()), [true, false, true, false]);
    }
}
