//! A decoder as data: layers whose tokens also attend to the states of an encoder.

use super::parts::{Norms, Product};
use super::spec::EncoderSpec;

/// Attention of a layer to the states of another sequence, after its own attention: without biases and positions, and
/// to all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossAttention {
    /// Projection of the queries.
    pub query: Product,
    /// Projections of the states to keys and values, or a single projection to both, in this order.
    pub key_value: Product,
    /// Projection of the heads' results, `[hidden, heads * head_dim]`.
    pub output: Product,
    /// Norms of this part.
    pub norms: Norms,
}

/// The decoder beside an encoder of the same width.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoder {
    /// Its tables and layers; each has [`CrossAttention`].
    pub stack: EncoderSpec,
    /// Start of the names of the tensors that it alone reads.
    pub prefix: String,
    /// The token before the first one; `None` where the configuration states none.
    pub start: Option<u32>,
}
