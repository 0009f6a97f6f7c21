//! An encoder as data: sizes, choices and the names of its tensors.

use std::sync::Arc;

use super::convolution::{ShortConvolution, SpanConvolution};
use super::decoder::{CrossAttention, Decoder};
use super::distances::Distances;
use super::mixture::Mixture;
pub use super::narrow::{FeedForward, Narrow, Normed};
pub use super::parts::{
    Bottleneck, Matrix, NormKind, Norms, Order, PositionRows, Positions, Product, Table, WordProjection,
};
use super::relative_biases::RelativeBiases;
use super::rotary::Rotary;
use super::task_head::TaskHead;
use crate::ops::ActivationKind;

/// One layer: its tensors, and what differs between layers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Layer {
    /// Projections of the queries, the keys and the values, or a single projection of all three, in this order.
    pub query_key_value: Product,
    /// Norms of each head of the queries and of the keys.
    pub head_norms: Option<[String; 2]>,
    /// Whether those norms are of all heads together.
    pub joint_head_norms: bool,
    /// Products of the vectors by distance: what queries meet, and what keys meet; `None` for nothing.
    pub by_distance: [Option<Product>; 2],
    /// Name of the layer's own table of biases by distance, in place of the shared one.
    pub relative_biases: Option<String>,
    /// Kind of rotary positions: an index into [`EncoderSpec::rotary`].
    pub rotary: Option<usize>,
    /// Largest distance at which a token sees others; 0 for any.
    pub window: u32,
    /// The convolution that is in place of attention, if there is one: the projections are those of its parts.
    pub short_convolution: Option<ShortConvolution>,
    /// The convolution beside attention, if there is one.
    pub span_convolution: Option<SpanConvolution>,
    /// Projection of the heads' results, `[hidden, heads * head_dim]`.
    pub attention_output: Product,
    /// Norms of the attention part.
    pub attention_norms: Norms,
    /// Attention to the states of another sequence, in a decoder.
    pub cross_attention: Option<CrossAttention>,
    /// Feed-forward parts before the last.
    pub first_feed_forwards: Vec<FeedForward>,
    /// First product of the feed-forward part, `[intermediate, hidden]`; for a gated one what is gated, then the gate.
    pub feed_forward_in: Product,
    /// Second product of the feed-forward part, `[hidden, intermediate]`.
    pub feed_forward_out: Product,
    /// The mixture of experts that the feed-forward part is, if it is one.
    pub mixture: Option<Mixture>,
    /// Norms of the feed-forward part.
    pub feed_forward_norms: Norms,
    /// A narrow part after the feed-forward part, if there is one.
    pub bottleneck: Option<Bottleneck>,
    /// What makes it a layer of fewer columns, if it is one.
    pub narrow: Option<Narrow>,
}

/// The values of a model that may leave float16's range, 65,504.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BeyondFloat16 {
    /// None.
    #[default]
    Nowhere,
    /// The hidden state that the parts of layers are added to, what the second product of a feed-forward part reads, and its
    /// result: that product is one of float32.
    ResidualStream,
    /// Any: in float16 only the weights are rounded to it.
    Anywhere,
}

/// Low-rank changes of all tables and products, one set for each of several tasks (Hu et al. 2021): with the tensors
/// `lora_A` and `lora_B`, which have an axis of tasks first, a product's matrix plus `scale * B A`, a table plus
/// `scale * A B`.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapters {
    /// Names of the tasks, in the order of that axis.
    pub tasks: Vec<String>,
    /// Rows of A of a product, columns of A of a table.
    pub rank: usize,
    /// Factor on the products.
    pub scale: f32,
    /// The class in the family's own code that takes the task, as modules.json names it.
    pub module: &'static str,
    /// Which of the tasks changes the weights; none of them if `None`.
    pub chosen: Option<usize>,
}

/// Description of an encoder for the graph builder; [`EncoderSpec::of_table`] is one without layers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EncoderSpec {
    /// Columns of the hidden state.
    pub hidden: usize,
    /// Columns of the embedding tables, but for those of positions and segments where [`Self::word_projection`] is.
    pub embedding: usize,
    /// Query heads.
    pub heads: usize,
    /// Key-value heads.
    pub kv_heads: usize,
    /// Columns of one head.
    pub head_dim: usize,
    /// Factor on the scores; default `1 / sqrt(head_dim)`.
    pub score_scale: Option<f32>,
    /// Bound that scores approach smoothly, as Gemma 2's; 0 for none.
    pub score_cap: f32,
    /// Columns between the two products of the feed-forward part.
    pub intermediate: usize,
    /// Activation between the two products of the feed-forward part.
    pub activation: ActivationKind,
    /// Whether its result is squared.
    pub activation_squared: bool,
    /// Whether the feed-forward part is gated: `out(x up^T * act(x gate^T))`.
    pub gated: bool,
    /// Kind of all norms.
    pub norm: NormKind,
    /// Added to the variance in every norm.
    pub norm_eps: f32,
    /// Norms with 1e-5 in its place, by name.
    pub usual_eps: Vec<String>,
    /// Word embeddings.
    pub words: Table,
    /// Its float32 numbers where they are made of several tensors; `None` for those of its name.
    pub made: Option<Arc<[u8]>>,
    /// Product of the word embeddings, if there is one.
    pub word_projection: Option<WordProjection>,
    /// Factor on the word embeddings.
    pub word_scale: f32,
    /// Whether that factor is rounded to the type of the table, as Gemma's.
    pub word_scale_rounded: bool,
    /// Factor on the result of each part of a layer, before it is added.
    pub residual_scale: f32,
    /// Segment embeddings, if the model has them.
    pub token_types: Option<Table>,
    /// Table whose first row is added to the embedding of every token, if there is one.
    pub task_types: Option<Table>,
    /// Position information of the embedding.
    pub positions: Positions,
    /// Kinds of rotary positions.
    pub rotary: Vec<Rotary>,
    /// Norm after the embeddings, if there is one.
    pub embedding_norm: Option<String>,
    /// Product from `embedding` to `hidden` columns after that norm, where the two differ.
    pub embedding_projection: Option<String>,
    /// Biases of the scores by distance, one table for all layers.
    pub relative_biases: Option<RelativeBiases>,
    /// Vectors by distance, one table for all layers.
    pub distances: Option<Distances>,
    /// Of ALiBi, one per head: the score of a key loses this factor of its distance. Empty for none.
    pub slopes: Vec<f32>,
    /// Whether a token sees only itself and earlier tokens.
    pub causal: bool,
    /// Whether no token sees the last ones of a text, which expansion has put there: each sees the keys of the others.
    pub unseen_expansion: bool,
    /// Whether tokens with which all texts of a batch begin may be rows of the first alone: a text sees the keys of these rows
    /// and then those of its own, in the blocks in which it would see them as its own.
    pub shared_beginning: bool,
    /// Probability of dropout in training, of the embeddings, the weights of attention and the results of both parts of a
    /// layer; 0 for none, as in inference.
    pub dropout: f32,
    /// Whether attention and feed-forward part read the same `x`: `x + attention(x) + feed_forward(x)`, as GPT-NeoX.
    pub parallel: bool,
    /// Whether the products of the layers may have norms of their own, `NAME.norm.weight`, which the checkpoint's tensors
    /// tell: then their matrices are ternary.
    pub own_norms: bool,
    /// Whether products of tokens and numbers are in 8-bit integers unless another type is asked for.
    pub integers: bool,
    /// Which values may leave float16's range: they are float32 where others are float16.
    pub beyond_float16: BeyondFloat16,
    /// Norm after the last layer, if there is one.
    pub final_norm: Option<String>,
    /// Adapters for tasks, if the model has them.
    pub adapters: Option<Adapters>,
    /// The layers, in order; some may have the same tensors.
    pub layers: Vec<Layer>,
    /// The decoder that attends to the last hidden state, if the family has one.
    pub decoder: Option<Box<Decoder>>,
}

impl EncoderSpec {
    /// No layers: a table of token vectors, as in sentence-transformers' StaticEmbedding.
    pub fn of_table(words: Table, columns: usize) -> Self {
        EncoderSpec {
            hidden: columns,
            embedding: columns,
            norm: NormKind::Layer { bias: true },
            words,
            word_scale: 1.0,
            residual_scale: 1.0,
            ..EncoderSpec::default()
        }
    }

    /// The same with the weights of a task, by its place among the adapters.
    pub fn with_adapter(&self, place: usize) -> Self {
        let mut adapted = self.clone();
        if let Some(adapters) = &mut adapted.adapters {
            adapters.chosen = Some(place);
        }
        adapted
    }

    /// The same for texts that end with tokens which see and are not seen.
    pub fn with_unseen_expansion(&self) -> Self {
        EncoderSpec { unseen_expansion: true, ..self.clone() }
    }

    /// Replaces the layers by as many others.
    pub fn with_layers(self, layer: impl Fn(usize) -> Layer) -> Self {
        EncoderSpec { layers: (0..self.layers.len()).map(layer).collect(), ..self }
    }
}

/// Uniform names of what no encoder reads: tables that are computed here, of positions, segments and masks, and a head that
/// is saved as a part of the encoder.
pub const UNUSED: [&str; 5] = ["*position_ids", "*token_type_ids", "*inv_freq", "*masked_bias", "pooler.*"];

/// Rules that make a checkpoint's names uniform before `EncoderSpec`'s names are looked up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NameRules {
    /// Whether torch's files count before safetensors where both are there.
    pub torch_first: bool,
    /// Prefixes to drop, e.g. `bert.`.
    pub prefixes: Vec<String>,
    /// Starts of names without such a prefix to rewrite, e.g. `encoder.layer.` to `layers.`.
    pub starts: Vec<(String, String)>,
    /// Suffixes to rewrite, e.g. `LayerNorm.gamma` to `LayerNorm.weight`.
    pub endings: Vec<(String, String)>,
    /// Names, after these rewrites, of tensors of the encoder that change nothing: exact, or with a `*` at one end. Those of
    /// every family ([`UNUSED`]) and of other modules need not be among them.
    pub ignored: Vec<String>,
    /// Suffixes of tensors that hold several in equal blocks of rows, and the suffixes of those.
    pub stacked: Vec<(String, Vec<String>)>,
    /// Second names of tensors, after these rewrites, and the first names, which they stand in for.
    pub aliases: Vec<(String, String)>,
    /// Names, after these rewrites, of the tensors of a head.
    pub head: Vec<String>,
    /// Names, after these rewrites, of tensors that may be missing and then are those of other names.
    pub tied: Vec<[String; 2]>,
}

impl NameRules {
    /// The rules for a table of token vectors, which model2vec calls otherwise.
    pub fn of_table() -> Self {
        NameRules { endings: vec![("embeddings".into(), "embedding.weight".into())], ..NameRules::default() }
    }

    /// The uniform name of the tensor stored as `stored`.
    ///
    /// Drops the longest matching prefix, then rewrites one start and one suffix.
    pub fn uniform(&self, stored: &str) -> String {
        let dropped = self.prefixes.iter().filter(|p| stored.starts_with(p.as_str())).map(|p| p.len()).max();
        let mut name = stored[dropped.unwrap_or(0)..].to_owned();
        if let Some((old, new)) = self.starts.iter().find(|(old, _)| name.starts_with(old.as_str())) {
            name.replace_range(..old.len(), new);
        }
        if let Some((old, new)) = self.endings.iter().find(|(old, _)| name.ends_with(old.as_str())) {
            name.truncate(name.len() - old.len());
            name.push_str(new);
        }
        name
    }

    /// Whether a tensor of this uniform name changes nothing where no head reads it.
    pub fn ignores(&self, uniform: &str) -> bool {
        let of_family = self.ignored.iter().map(String::as_str);
        of_family.chain(UNUSED.iter().copied()).any(|pattern| {
            match (pattern.strip_suffix('*'), pattern.strip_prefix('*')) {
                (Some(start), _) => uniform.starts_with(start),
                (None, Some(end)) => uniform.ends_with(end),
                (None, None) => uniform == pattern,
            }
        })
    }

    /// The same rules for a checkpoint of which a head is used, too.
    pub fn with_head(mut self, head: &TaskHead) -> Self {
        self.head.extend(head.tensors());
        self.tied.extend(head.tied.iter().cloned());
        self
    }

    /// The names of the equal blocks of rows of the tensor with this uniform name; its own for one that is not stacked.
    pub fn blocks(&self, uniform: String) -> Vec<String> {
        match self.stacked.iter().find(|(whole, _)| uniform.ends_with(whole.as_str())) {
            Some((whole, blocks)) => {
                let start = &uniform[..uniform.len() - whole.len()];
                blocks.iter().map(|block| format!("{start}{block}")).collect()
            }
            None => vec![uniform],
        }
    }
}
