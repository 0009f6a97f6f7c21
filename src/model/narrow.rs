//! What layers have that compute in fewer columns than the hidden state, as MobileBERT's.

use super::parts::{Norms, Product};

/// A product and the norm of its result.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Normed {
    /// The product.
    pub product: Product,
    /// The norm.
    pub norm: String,
}

/// A layer of fewer columns than the hidden state (Sun et al. 2020): both parts compute in these, and their result is added
/// to the hidden state after a product.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Narrow {
    /// Columns of the layer.
    pub columns: usize,
    /// From the hidden state to what the attention part is added to.
    pub input: Normed,
    /// From the hidden state to what queries and keys are made of; `None` for the same.
    pub attended: Option<Normed>,
    /// Whether values are made of the hidden state, in place of the result of `input`.
    pub whole_values: bool,
    /// From the result of the parts to the hidden state.
    pub output: Product,
    /// Norms of that.
    pub norms: Norms,
}

/// A feed-forward part without gates: its products, with the encoder's activation between them, and its norms.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FeedForward {
    /// First product.
    pub input: Product,
    /// Second product.
    pub output: Product,
    /// Norms of the part.
    pub norms: Norms,
}
