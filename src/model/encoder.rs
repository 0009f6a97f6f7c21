//! The one builder: `EncoderSpec` and heads to a graph.

use super::heads::Head;
use super::spec::{EncoderSpec, Positions, Table};
use super::weights::Needed;
use crate::dtype::DType;
use crate::graph::{Graph, Source, ValueId};
use crate::ops::{
    Activation, ActivationKind, Attention, Binary, BinaryKind, Dim, EmbeddingSum, LayerNorm, Linear, Normalize, Pool,
    PoolMode, Shape,
};
use crate::{Error, Result};

/// Places of the inputs among `Graph::inputs`, all u32.
pub mod inputs {
    /// Word ids `[T]`.
    pub const WORDS: usize = 0;
    /// Rows of the position table `[T]`.
    pub const POSITIONS: usize = 1;
    /// First token of each text `[B + 1]`.
    pub const OFFSETS: usize = 2;
    /// Tokens of each text left out of pooling `[B]`.
    pub const FIRST: usize = 3;
    /// Segments `[T]`; only models with segment embeddings have this input.
    pub const TYPES: usize = 4;
}

/// Places of the outputs among `Graph::outputs`.
pub mod outputs {
    /// One vector a text `[B, D]`.
    pub const SENTENCES: usize = 0;
    /// The encoder's last hidden state `[T, hidden]`.
    pub const TOKENS: usize = 1;
}

/// Builds the graph of an encoder and what follows it. Outputs: the sentence embedding, then the hidden state.
/// Tables, matrices and everything up to pooling are stored as `dtype`; vectors of weights and what follows as float32.
///
/// # Errors
/// `InvalidArgument` when modules do not fit together.
pub fn build(spec: &EncoderSpec, heads: &[Head], dtype: DType) -> Result<Graph> {
    let mut builder = Builder { graph: Graph::new(), spec, dtype };
    let places = builder.inputs();
    let mut hidden = builder.embeddings(&places)?;
    let biases = spec.relative_biases.as_ref().map(|biases| {
        let shape = Shape::fixed(&[spec.heads, biases.distances()]);
        builder.graph.weight(vec![biases.table.name.clone()], shape)
    });
    for layer in 0..spec.layers {
        hidden = builder.layer(layer, hidden, places.offsets, biases)?;
    }
    let sentences = builder.heads(heads, hidden, &places)?;
    builder.graph.outputs = vec![sentences, hidden];
    Ok(builder.graph)
}

/// Names and shapes, as they are stored, of all the tensors that the graph of `spec` reads.
pub fn needed(graph: &Graph, spec: &EncoderSpec) -> Vec<Needed> {
    let mut needed = Vec::new();
    for value in &graph.values {
        if let Source::Weight(weight) = &value.source {
            let mut shape: Vec<usize> = value.shape.0.iter().map(|d| d.size(Default::default())).collect();
            shape[0] /= weight.parts.len();
            if let Some(biases) = spec.relative_biases.as_ref().filter(|biases| weight.parts == [&*biases.table.name]) {
                shape = vec![biases.table.rows, spec.heads];
            }
            needed.extend(weight.parts.iter().map(|name| Needed { name: name.clone(), shape: shape.clone() }));
        }
    }
    needed
}

struct Inputs {
    words: ValueId,
    positions: ValueId,
    offsets: ValueId,
    first: ValueId,
    types: Option<ValueId>,
}

struct Builder<'a> {
    graph: Graph,
    spec: &'a EncoderSpec,
    dtype: DType,
}

impl Builder<'_> {
    fn inputs(&mut self) -> Inputs {
        let graph = &mut self.graph;
        let mut input = |name: &str, rows: Dim| graph.input(name, Shape::vector(rows), DType::U32);
        // The order is that of the module `inputs`.
        Inputs {
            words: input("word ids", Dim::Tokens),
            positions: input("positions", Dim::Tokens),
            offsets: input("offsets", Dim::Boundaries),
            first: input("first pooled token", Dim::Texts),
            types: self.spec.token_types.is_some().then(|| input("segments", Dim::Tokens)),
        }
    }

    fn table(&mut self, table: &Table) -> ValueId {
        self.graph.weight_as(self.dtype, vec![table.name.clone()], Shape::fixed(&[table.rows, self.spec.embedding]))
    }

    /// Word, then segment, then position: the order in which the reference adds them.
    fn embeddings(&mut self, places: &Inputs) -> Result<ValueId> {
        let spec = self.spec;
        let mut operands = vec![places.words, self.table(&spec.words)];
        if let (Some(types), Some(table)) = (places.types, &spec.token_types) {
            operands.extend([types, self.table(table)]);
        }
        let Positions::Learned { table, .. } = &spec.positions;
        operands.extend([places.positions, self.table(table)]);
        let sum = self.graph.node("embeddings", EmbeddingSum {}, &operands)?;
        let x = self.norm("embedding norm", &spec.embedding_norm, sum, spec.norm_eps)?;
        match &spec.embedding_projection {
            None => Ok(x),
            Some(name) => self.linear("embedding projection", std::slice::from_ref(name), x, spec.hidden, true),
        }
    }

    fn norm(&mut self, node: &str, name: &str, x: ValueId, eps: f32) -> Result<ValueId> {
        let columns = Shape::fixed(&[self.graph.value(x).shape.columns()]);
        let weight = self.graph.weight(vec![format!("{name}.weight")], columns.clone());
        let bias = self.graph.weight(vec![format!("{name}.bias")], columns);
        self.graph.node(node, LayerNorm { eps }, &[x, weight, bias])
    }

    /// `x W^T + b` with the tensors `names`, stacked.
    fn linear(&mut self, node: &str, names: &[String], x: ValueId, columns: usize, bias: bool) -> Result<ValueId> {
        let (input, dtype) = (self.graph.value(x).shape.columns(), self.graph.value(x).dtype);
        let parts = |ending: &str| names.iter().map(|n| format!("{n}.{ending}")).collect();
        let mut operands = vec![x, self.graph.weight_as(dtype, parts("weight"), Shape::fixed(&[columns, input]))];
        if bias {
            operands.push(self.graph.weight(parts("bias"), Shape::fixed(&[columns])));
        }
        self.graph.node(node, Linear { bias, ..Linear::default() }, &operands)
    }

    fn layer(&mut self, layer: usize, x: ValueId, offsets: ValueId, biases: Option<ValueId>) -> Result<ValueId> {
        let spec = self.spec;
        let name = |template: &str| template.replace("{}", &layer.to_string());
        let node = |part: &str| format!("layer {layer} {part}");
        let (query, key) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
        let names = [name(&spec.names.query), name(&spec.names.key), name(&spec.names.value)];
        let qkv = self.linear(&node("query key value"), &names, x, query + 2 * key, true)?;
        let attention = Attention {
            heads: spec.heads,
            kv_heads: spec.kv_heads,
            head_dim: spec.head_dim,
            scale: 1.0 / (spec.head_dim as f32).sqrt(),
            k_column: query,
            v_column: query + key,
            bias: biases.is_some(),
            ..Attention::default()
        };
        let operands: Vec<ValueId> = [qkv, qkv, qkv, offsets, offsets].into_iter().chain(biases).collect();
        let mixed = self.graph.node(&node("attention"), attention, &operands)?;
        let projected =
            self.linear(&node("attention output"), &[name(&spec.names.attention_output)], mixed, spec.hidden, true)?;
        let x = self.add_and_norm(&node("attention"), &name(&spec.names.attention_norm), projected, x)?;
        let wide =
            self.linear(&node("feed-forward in"), &[name(&spec.names.feed_forward_in)], x, spec.intermediate, true)?;
        let wide = self.activation(&node("feed-forward activation"), spec.activation, wide)?;
        let narrow =
            self.linear(&node("feed-forward out"), &[name(&spec.names.feed_forward_out)], wide, spec.hidden, true)?;
        self.add_and_norm(&node("feed-forward"), &name(&spec.names.feed_forward_norm), narrow, x)
    }

    fn activation(&mut self, node: &str, kind: ActivationKind, x: ValueId) -> Result<ValueId> {
        match kind {
            ActivationKind::Identity => Ok(x),
            _ => self.graph.node(node, Activation::from(kind), &[x]),
        }
    }

    fn add_and_norm(&mut self, node: &str, name: &str, y: ValueId, residual: ValueId) -> Result<ValueId> {
        let sum = self.graph.node(&format!("{node} residual"), Binary::from(BinaryKind::Add), &[y, residual])?;
        self.norm(&format!("{node} norm"), name, sum, self.spec.norm_eps)
    }

    fn heads(&mut self, heads: &[Head], hidden: ValueId, places: &Inputs) -> Result<ValueId> {
        let mut x = hidden;
        let mut pooled = false;
        for head in heads {
            if !pooled && !matches!(head, Head::Pooling { .. }) {
                return Err(Error::Unsupported {
                    what: "modules.json".into(),
                    reason: "a module stands between the Transformer and Pooling".into(),
                });
            }
            x = match head {
                Head::Pooling { .. } if pooled => {
                    return Err(Error::Unsupported {
                        what: "modules.json".into(),
                        reason: "two Pooling modules".into(),
                    });
                }
                Head::Pooling { modes, .. } => {
                    pooled = true;
                    self.pool(modes.clone(), x, places)?
                }
                Head::Dense { path, input, output, bias, activation, residual } => {
                    self.check_columns(x, *input, &format!("{path}: in_features"))?;
                    // Before the product, so that the sum can become the product's epilogue.
                    let added = match residual {
                        true if input == output => Some(x),
                        true => {
                            let name = format!("{path}/residual");
                            Some(self.linear(&format!("{path} residual"), &[name], x, *output, false)?)
                        }
                        false => None,
                    };
                    let y = self.linear(path, &[format!("{path}/linear")], x, *output, *bias)?;
                    let y = self.activation(&format!("{path} activation"), *activation, y)?;
                    match added {
                        Some(added) => {
                            self.graph.node(&format!("{path} sum"), Binary::from(BinaryKind::Add), &[y, added])?
                        }
                        None => y,
                    }
                }
                Head::LayerNorm { path, dimension } => {
                    self.check_columns(x, *dimension, &format!("{path}: dimension"))?;
                    self.norm(path, &format!("{path}/norm"), x, 1e-5)?
                }
                Head::Normalize => self.graph.node("normalize", Normalize::default(), &[x])?,
            };
        }
        if pooled { Ok(x) } else { self.pool(vec![PoolMode::Mean], x, places) }
    }

    /// A module's own statement of its input against what the module before it gives.
    fn check_columns(&self, x: ValueId, stated: usize, key: &str) -> Result<()> {
        let columns = self.graph.value(x).shape.columns();
        if columns == stated {
            return Ok(());
        }
        Err(Error::InvalidArgument(format!("{key} is {stated}, but the module before it gives {columns}")))
    }

    fn pool(&mut self, modes: Vec<PoolMode>, x: ValueId, places: &Inputs) -> Result<ValueId> {
        self.graph.node("pooling", Pool { modes }, &[x, places.offsets, places.first])
    }
}
