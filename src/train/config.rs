//! A decoder-only transformer as data: its sizes, and the description from which the graph builder makes it.

use serde::{Deserialize, Serialize};

use super::need;
use crate::model::rotary::Rotary;
use crate::model::spec::{EncoderSpec, Layer, Matrix, Norms, PositionRows, Positions, Product, Table};
use crate::ops::ActivationKind;
use crate::process::memory;
use crate::{Error, Result};

/// How a model knows the positions of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PositionKind {
    /// By a table that is learned, added to the embeddings.
    #[default]
    Learned,
    /// By rotation of queries and keys (Su et al. 2021), pair `i` of a head's `d` columns by `10000^(-2 i / d)` per position.
    Rotary,
}

/// Sizes of a Pre-LN transformer that predicts the next token: `x + attention(norm(x))`, `x + feed_forward(norm(x))`, a
/// last norm and a product with the output matrix. Biases everywhere but in the output, GELU by tanh, layer norm with
/// 1e-5.
///
/// ```
/// use grilly::train::TransformerConfig;
/// let config = TransformerConfig { num_layers: 2, ..TransformerConfig::tiny() };
/// assert_eq!(config.parameter_count().unwrap(), 1_743_872);
/// assert_eq!(TransformerConfig::tiny().parameter_count().unwrap(), 3_323_392);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerConfig {
    /// Tokens of the vocabulary; 256 for bytes.
    pub vocab_size: usize,
    /// Columns of the hidden state.
    pub d_model: usize,
    /// Layers.
    pub num_layers: usize,
    /// Attention heads, a divisor of `d_model`.
    pub num_heads: usize,
    /// Columns between the two products of the feed-forward part.
    pub ffn_dim: usize,
    /// The longest sequence: rows of the table of positions.
    pub max_seq_len: usize,
    /// Whether the output matrix is the table of the tokens; default false.
    #[serde(default)]
    pub tied_output: bool,
    /// Probability in training of an element to become zero, the others being divided by one minus it: of the embeddings,
    /// the weights of attention and what each part of a layer adds; default 0.
    #[serde(default)]
    pub dropout: f64,
    /// How it knows positions; default learned.
    #[serde(default)]
    pub positions: PositionKind,
    /// Whether the products of layers are of int8 activations and ternary weights (W1.58A8, Ma et al. 2024), one scale per token
    /// and one per matrix; gradients go straight through the rounding to weights of float32. The output matrix and the
    /// tables stay as they are; default false.
    #[serde(default)]
    pub bitlinear: bool,
}

impl TransformerConfig {
    /// 3,323,392 parameters: 4 layers of 256 columns, sequences of 128.
    pub fn tiny() -> Self {
        TransformerConfig {
            vocab_size: 256,
            d_model: 256,
            num_layers: 4,
            num_heads: 4,
            ffn_dim: 1024,
            max_seq_len: 128,
            tied_output: false,
            dropout: 0.0,
            positions: PositionKind::Learned,
            bitlinear: false,
        }
    }

    /// 19,308,544 parameters: 6 layers of 512 columns, sequences of 256.
    pub fn small() -> Self {
        let sizes = TransformerConfig::tiny();
        TransformerConfig { d_model: 512, num_layers: 6, num_heads: 8, ffn_dim: 2048, max_seq_len: 256, ..sizes }
    }

    /// 85,842,432 parameters: 12 layers of 768 columns, sequences of 512.
    pub fn medium() -> Self {
        let sizes = TransformerConfig::tiny();
        TransformerConfig { d_model: 768, num_layers: 12, num_heads: 12, ffn_dim: 3072, max_seq_len: 512, ..sizes }
    }

    /// The configuration called `name`: `"tiny"`, `"small"` or `"medium"`.
    ///
    /// # Errors
    /// `InvalidArgument` listing the names.
    pub fn named(name: &str) -> Result<Self> {
        let known = [("tiny", Self::tiny()), ("small", Self::small()), ("medium", Self::medium())];
        crate::error::named("config", name, known)
    }

    /// Reads it from JSON.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown key, a missing one or a value of the wrong type.
    pub fn from_json(text: &str) -> Result<Self> {
        super::parsed("config", text)
    }

    /// Checks the sizes.
    ///
    /// # Errors
    /// `InvalidArgument` naming the first that is out of range, with its value and what is expected.
    pub fn check(&self) -> Result<()> {
        for (name, size) in [
            ("vocab_size", self.vocab_size),
            ("d_model", self.d_model),
            ("num_layers", self.num_layers),
            ("num_heads", self.num_heads),
            ("ffn_dim", self.ffn_dim),
            ("max_seq_len", self.max_seq_len),
        ] {
            // Rows and columns are 32-bit numbers in kernels.
            need(name, &size, (1..=i32::MAX as usize).contains(&size), "a number from 1 to 2^31 - 1")?;
        }
        let (columns, heads) = (self.d_model, self.num_heads);
        need("d_model", &columns, columns.is_multiple_of(heads), &format!("a multiple of num_heads, {heads}"))?;
        let (each, rotary) = (columns / heads, self.positions == PositionKind::Rotary);
        need("d_model / num_heads", &each, !rotary || each.is_multiple_of(2), "an even number for rotary positions")?;
        need("dropout", &self.dropout, (0.0..1.0).contains(&self.dropout), "a number from 0 to below 1")?;
        if self.counted().is_none_or(|count| count > isize::MAX as u128) {
            return Err(Error::InvalidArgument("the sizes give more parameters than memory can hold".into()));
        }
        Ok(())
    }

    /// The number of parameters; `None` beyond 128 bits.
    fn counted(&self) -> Option<u128> {
        let [words, columns, layers, wide, rows] =
            [self.vocab_size, self.d_model, self.num_layers, self.ffn_dim, self.max_seq_len].map(|size| size as u128);
        let rows = if self.positions == PositionKind::Learned { rows } else { 0 };
        let tables = (words * if self.tied_output { 1 } else { 2 } + rows) * columns;
        // Four square matrices and the two of the feed-forward part; biases and norms.
        let matrices = (4 * columns + 2 * wide) * columns;
        (matrices + 9 * columns + wide).checked_mul(layers)?.checked_add(tables + 2 * columns)
    }

    /// The number of parameters.
    ///
    /// # Errors
    /// As [`TransformerConfig::check`].
    pub fn parameter_count(&self) -> Result<usize> {
        self.check()?;
        Ok(self.counted().unwrap_or_default() as usize)
    }

    /// Checks that memory holds a model in training: at least its parameters, those of a state like it `kinds` times more,
    /// and what `tokens` tokens compute.
    ///
    /// # Errors
    /// As [`TransformerConfig::check`], and `OutOfMemory` with the numbers.
    pub(super) fn check_memory(&self, kinds: usize, tokens: usize) -> Result<()> {
        let parameters = self.parameter_count()? as u128;
        let [words, columns, layers, rows] =
            [self.vocab_size, self.d_model, self.num_layers, self.max_seq_len].map(|size| size as u128);
        let angles = if self.positions == PositionKind::Rotary { rows * columns / self.num_heads as u128 } else { 0 };
        // The logits and their gradients, and the hidden states; nodes and names of the graph.
        let numbers = (1 + kinds as u128) * parameters + angles + tokens as u128 * (2 * words + 2 * columns);
        let purpose = format!("{parameters} parameters in training, and batches of {tokens} tokens");
        memory::need(4 * numbers + GRAPH_BYTES * layers, &purpose)
    }

    /// The same without what training alone has.
    pub(super) fn without_dropout(&self) -> Self {
        TransformerConfig { dropout: 0.0, ..self.clone() }
    }

    /// The stack of layers for the graph builder, with the names of its tensors.
    pub(super) fn spec(&self) -> EncoderSpec {
        let rotary = self.positions == PositionKind::Rotary;
        let head_dim = self.d_model / self.num_heads;
        let matrix = if self.bitlinear { Matrix::Trained } else { Matrix::Numbers };
        let product = |name: String| Product { matrix, ..Product::biased([name]) };
        let layer = |number: usize| {
            let name = |part: &str| format!("layers.{number}.{part}");
            Layer {
                query_key_value: product(name("attention.query_key_value")),
                rotary: rotary.then_some(0),
                attention_output: product(name(ATTENTION_OUTPUT)),
                attention_norms: Norms::before(name("attention_norm")),
                feed_forward_in: product(name("feed_forward.in")),
                feed_forward_out: product(name(FEED_FORWARD_OUT)),
                feed_forward_norms: Norms::before(name("feed_forward_norm")),
                ..Layer::default()
            }
        };
        let table = Table { name: "positions.weight".into(), rows: self.max_seq_len };
        EncoderSpec {
            heads: self.num_heads,
            kv_heads: self.num_heads,
            head_dim,
            intermediate: self.ffn_dim,
            activation: ActivationKind::GeluTanh,
            norm_eps: 1e-5,
            positions: match self.positions {
                PositionKind::Learned => Positions::Learned { table, rows: PositionRows::Counted },
                PositionKind::Rotary => Positions::None { longest: self.max_seq_len },
            },
            rotary: if rotary { vec![Rotary::new(ROTARY_BASE, head_dim)] } else { Vec::new() },
            causal: true,
            dropout: self.dropout as f32,
            final_norm: Some("final_norm".into()),
            layers: (0..self.num_layers).map(layer).collect(),
            ..EncoderSpec::of_table(Table { name: WORDS.into(), rows: self.vocab_size }, self.d_model)
        }
    }

    /// Name of the output matrix, `[vocab_size, d_model]`.
    pub(super) fn output(&self) -> &'static str {
        if self.tied_output { WORDS } else { "output.weight" }
    }
}

/// Least bytes of a layer in the graphs of a model in training.
const GRAPH_BYTES: u128 = 1 << 14;
/// Turns per position of the pairs of columns fall from 1 to about one in so many radians.
const ROTARY_BASE: f64 = 10_000.0;
/// Name of the table of the tokens.
const WORDS: &str = "embedding.weight";
/// The products whose results are added to the hidden state.
pub(super) const ATTENTION_OUTPUT: &str = "attention.output";
pub(super) const FEED_FORWARD_OUT: &str = "feed_forward.out";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_are_those_of_the_three_sizes() {
        let count = |name: &str| TransformerConfig::named(name).unwrap().parameter_count().unwrap();
        assert_eq!(["tiny", "small", "medium"].map(count), [3_323_392, 19_308_544, 85_842_432]);
        let tied = TransformerConfig { tied_output: true, ..TransformerConfig::tiny() };
        assert_eq!(tied.parameter_count().unwrap(), 3_323_392 - 256 * 256);
        let rotary = TransformerConfig { positions: PositionKind::Rotary, ..TransformerConfig::tiny() };
        assert_eq!(rotary.parameter_count().unwrap(), 3_323_392 - 128 * 256);
    }

    #[test]
    fn bad_sizes_are_named() {
        let tiny = TransformerConfig::tiny;
        for (config, part) in [
            (TransformerConfig { d_model: 250, ..tiny() }, "d_model is 250, expected a multiple of num_heads, 4"),
            (TransformerConfig { num_layers: 0, ..tiny() }, "num_layers is 0"),
            (TransformerConfig { vocab_size: usize::MAX, ..tiny() }, "vocab_size is"),
            (
                TransformerConfig { num_heads: 256, positions: PositionKind::Rotary, ..tiny() },
                "d_model / num_heads is 1, expected an even number",
            ),
            (TransformerConfig { dropout: 1.0, ..tiny() }, "dropout is 1, expected a number from 0 to below 1"),
            (
                TransformerConfig { d_model: 1 << 30, ffn_dim: 1 << 30, num_layers: 1 << 30, ..tiny() },
                "more parameters than memory",
            ),
        ] {
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let error = TransformerConfig::named("large").unwrap_err().to_string();
        assert_eq!(error, r#"config is "large", expected "tiny", "small" or "medium""#);
    }

    #[test]
    fn json_goes_there_and_back() {
        let positions = PositionKind::Rotary;
        let config = TransformerConfig { tied_output: true, dropout: 0.1, positions, ..TransformerConfig::small() };
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<TransformerConfig>(&text).unwrap(), config);
        assert!(serde_json::from_str::<TransformerConfig>(&text.replace("d_model", "hidden")).is_err());
    }
}
