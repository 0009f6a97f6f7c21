//! Convolutions over the tokens of a text, as parts of a layer.

use super::parts::Product;

/// A short gated one in place of attention (LFM2, Amini et al. 2025), which sees the token and those before it: with the results
/// `b`, `c` and `v` of the layer's `query_key_value`, `c convolution(b v)` is what the layer's `attention_output` reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortConvolution {
    /// Name of the weights of each column, `[hidden, 1, taps]`, without `.weight`.
    pub name: String,
    /// Tokens that a token sees.
    pub taps: usize,
    /// Whether it has a bias.
    pub bias: bool,
}

/// One beside attention, over as many heads, whose weights depend on the token and those around it (ConvBERT, Jiang et al.
/// 2020): `softmax(weights (queries keys))` of each head over `values`, where `keys` is a product of a convolution of each
/// column of `x`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanConvolution {
    /// Tokens around a token that it sees, itself included.
    pub taps: usize,
    /// Name of the weights of each column in that convolution, `[hidden, 1, taps]`.
    pub depthwise: String,
    /// The product of its results, `[heads * head_dim, hidden]`, without a bias.
    pub keys: Product,
    /// Name of the bias of the keys, `[heads * head_dim, 1]`.
    pub keys_bias: String,
    /// The product to the weights of each head, `[heads * taps, heads * head_dim]`.
    pub weights: Product,
    /// The product to what is added up, `[heads * head_dim, hidden]`.
    pub values: Product,
    /// Projection of its results, `[hidden, heads * head_dim]`, which is added to that of attention.
    pub output: Product,
}
