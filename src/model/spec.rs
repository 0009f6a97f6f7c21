//! An encoder as data: sizes, choices and the names of its tensors.

use super::relative_biases::RelativeBiases;
use crate::ops::ActivationKind;

/// Position of a layer's norms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormPlace {
    /// `x = norm(x + f(x))`, as BERT.
    Post,
    /// `x = x + f(norm(x))`, as GPT-2.
    Pre,
}

/// Storage order of the matrices of products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matrices {
    /// `[columns of the result, columns of x]`, as in torch's `Linear`.
    ByResult,
    /// `[columns of x, columns of the result]`, as in GPT-2's `Conv1D`.
    ByOperand,
}

/// How a token's position in its text enters the model: by a learned table, added to the word's embedding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Positions {
    /// The table.
    pub table: Table,
    /// The row of each token.
    pub rows: PositionRows,
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
}

impl PositionRows {
    /// The row of each token of a text.
    pub fn of(self, ids: &[u32]) -> Vec<u32> {
        match self {
            PositionRows::Counted => (0..ids.len() as u32).collect(),
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

impl Positions {
    /// Maximum tokens of a text, for any tokens.
    pub fn longest_text(&self) -> usize {
        match self.rows {
            PositionRows::Counted => self.table.rows,
            PositionRows::AfterPadding { pad } => self.table.rows.saturating_sub(pad as usize + 1),
        }
    }
}

/// An embedding table: `[rows, embedding]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Name in the checkpoint.
    pub name: String,
    /// Rows.
    pub rows: usize,
}

/// Names of one layer's tensors, without `.weight` and `.bias`; `{}` is replaced by the layer's number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerNames {
    /// Projections of the queries, the keys and the values, or a single projection of all three, in this order.
    pub query_key_value: Vec<String>,
    /// Projection of the heads' results, `[hidden, heads * head_dim]`.
    pub attention_output: String,
    /// Norm of the attention part.
    pub attention_norm: String,
    /// First product of the feed-forward part, `[intermediate, hidden]`.
    pub feed_forward_in: String,
    /// Second product of the feed-forward part, `[hidden, intermediate]`.
    pub feed_forward_out: String,
    /// Norm of the feed-forward part.
    pub feed_forward_norm: String,
}

/// Description of an encoder for the graph builder.
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderSpec {
    /// Columns of the hidden state.
    pub hidden: usize,
    /// Columns of the embedding tables.
    pub embedding: usize,
    /// Number of layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key-value heads.
    pub kv_heads: usize,
    /// Columns of one head.
    pub head_dim: usize,
    /// Columns between the two products of the feed-forward part.
    pub intermediate: usize,
    /// Activation between the two products of the feed-forward part.
    pub activation: ActivationKind,
    /// Added to the variance in every norm.
    pub norm_eps: f32,
    /// Position of the norms.
    pub norm_place: NormPlace,
    /// Word embeddings.
    pub words: Table,
    /// Segment embeddings, if the model has them.
    pub token_types: Option<Table>,
    /// Position information.
    pub positions: Positions,
    /// Norm after the embeddings, if there is one.
    pub embedding_norm: Option<String>,
    /// Product from `embedding` to `hidden` columns after that norm, where the two differ.
    pub embedding_projection: Option<String>,
    /// Biases of the scores by distance, one table for all layers.
    pub relative_biases: Option<RelativeBiases>,
    /// Whether a token sees only itself and earlier tokens.
    pub causal: bool,
    /// Norm after the last layer, if there is one.
    pub final_norm: Option<String>,
    /// Storage order of the layers' matrices.
    pub matrices: Matrices,
    /// Names of the layers' tensors.
    pub names: LayerNames,
}

/// Rules that make a checkpoint's names uniform before `EncoderSpec`'s names are looked up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NameRules {
    /// Prefixes to drop, e.g. `bert.`.
    pub prefixes: Vec<String>,
    /// Suffixes to rewrite, e.g. `LayerNorm.gamma` to `LayerNorm.weight`.
    pub endings: Vec<(String, String)>,
    /// Names, after these rewrites, that may be present and are not used: exact, or with a `*` at one end.
    pub ignored: Vec<String>,
}

impl NameRules {
    /// The uniform name of the tensor stored as `stored`; `None` for one that is not used.
    ///
    /// Drops the longest matching prefix, then rewrites one suffix, then leaves out the ignored names.
    pub fn uniform(&self, stored: &str) -> Option<String> {
        let dropped = self.prefixes.iter().filter(|p| stored.starts_with(p.as_str())).map(|p| p.len()).max();
        let mut name = stored[dropped.unwrap_or(0)..].to_owned();
        if let Some((old, new)) = self.endings.iter().find(|(old, _)| name.ends_with(old.as_str())) {
            name.truncate(name.len() - old.len());
            name.push_str(new);
        }
        let ignored = self.ignored.iter().any(|pattern| match (pattern.strip_suffix('*'), pattern.strip_prefix('*')) {
            (Some(start), _) => name.starts_with(start),
            (None, Some(end)) => name.ends_with(end),
            (None, None) => name == *pattern,
        });
        (!ignored).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(rows: PositionRows) -> Positions {
        Positions { table: Table { name: "positions".into(), rows: 10 }, rows }
    }

    #[test]
    fn rows_are_counted_over_tokens_that_are_not_padding() {
        let bert = learned(PositionRows::Counted);
        assert_eq!((PositionRows::Counted.of(&[7, 1, 1, 7]), bert.longest_text()), (vec![0, 1, 2, 3], 10));
        let roberta = PositionRows::AfterPadding { pad: 1 };
        assert_eq!((roberta.of(&[0, 8, 1, 9, 1, 2]), learned(roberta).longest_text()), (vec![2, 3, 1, 4, 1, 5], 8));
        let other = PositionRows::AfterPadding { pad: 4 };
        assert_eq!((other.of(&[4, 4, 5]), learned(other).longest_text()), (vec![4, 4, 5], 5));
    }
}
