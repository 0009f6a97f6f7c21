//! The graph builder: from `EncoderSpec` and heads to a graph.

use super::heads::Head;
use super::spec::{EncoderSpec, Matrices, NormPlace, PositionRows, Positions, Table};
use super::weights::Needed;
use crate::dtype::DType;
use crate::graph::{Graph, Source, ValueId};
use crate::ops::{
    Activation, ActivationKind, Attention, Binary, BinaryKind, Dim, EmbeddingSum, LayerNorm, Linear, Normalize, Pool,
    PoolMode, Shape,
};
use crate::tensor::{Part, Recipe};
use crate::{Error, Result};

/// The contents of a graph input in a batch; all u32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Word ids `[T]`.
    Words,
    /// Rows of the position table `[T]`.
    Positions(PositionRows),
    /// First token of each text `[B + 1]`.
    Offsets,
    /// Number of leading tokens of each text left out of pooling `[B]`.
    FirstPooled,
    /// Segments `[T]`.
    Segments,
}

impl Input {
    fn name_and_rows(self) -> (&'static str, Dim) {
        match self {
            Input::Words => ("word ids", Dim::Tokens),
            Input::Positions(_) => ("positions", Dim::Tokens),
            Input::Offsets => ("offsets", Dim::Boundaries),
            Input::FirstPooled => ("first pooled token", Dim::Texts),
            Input::Segments => ("segments", Dim::Tokens),
        }
    }
}

/// Indices of the outputs in `Graph::outputs`.
pub mod outputs {
    /// One vector per text `[B, D]`.
    pub const SENTENCES: usize = 0;
    /// The encoder's last hidden state `[T, hidden]`.
    pub const TOKENS: usize = 1;
}

/// A graph and the contents of its inputs.
#[derive(Debug)]
pub struct Encoder {
    /// Outputs: the sentence embedding, then the hidden state.
    pub graph: Graph,
    /// In the order of [`Graph::inputs`].
    pub inputs: Vec<Input>,
}

/// Builds the graph of an encoder and its heads. Tables, matrices and all results before pooling are stored as `dtype`;
/// vectors of weights and later results as float32.
///
/// # Errors
/// `InvalidArgument` when modules do not fit together.
pub fn build(spec: &EncoderSpec, heads: &[Head], dtype: DType) -> Result<Encoder> {
    let mut builder = Builder { graph: Graph::new(), inputs: Vec::new(), spec, dtype };
    let mut hidden = builder.embeddings()?;
    let biases = spec.relative_biases.as_ref().map(|biases| {
        let shape = Shape::fixed(&[spec.heads, biases.distances()]);
        builder.graph.weight(vec![biases.part(spec.heads)], shape)
    });
    for layer in 0..spec.layers {
        hidden = builder.layer(layer, hidden, biases)?;
    }
    if let Some(name) = &spec.final_norm {
        hidden = builder.norm("final norm", name, hidden, spec.norm_eps)?;
    }
    let sentences = builder.heads(heads, hidden)?;
    builder.graph.outputs = vec![sentences, hidden];
    Ok(Encoder { graph: builder.graph, inputs: builder.inputs })
}

/// Names and stored shapes of all tensors that a graph reads.
pub fn needed(graph: &Graph) -> Vec<Needed> {
    let mut needed = Vec::new();
    for value in &graph.values {
        if let Source::Weight(weight) = &value.source {
            let own = || value.shape.sizes(Default::default());
            let stored = |part: &Part| part.shape.clone().unwrap_or_else(own);
            needed.extend(weight.parts.iter().map(|part| Needed { name: part.name.clone(), shape: stored(part) }));
        }
    }
    needed
}

struct Builder<'a> {
    graph: Graph,
    inputs: Vec<Input>,
    spec: &'a EncoderSpec,
    dtype: DType,
}

impl Builder<'_> {
    /// The value of an input, created on first use.
    fn input(&mut self, input: Input) -> ValueId {
        if let Some(place) = self.inputs.iter().position(|known| *known == input) {
            return self.graph.inputs[place];
        }
        self.inputs.push(input);
        let (name, rows) = input.name_and_rows();
        self.graph.input(name, Shape::vector(rows), DType::U32)
    }

    fn table(&mut self, table: &Table) -> ValueId {
        let shape = Shape::fixed(&[table.rows, self.spec.embedding]);
        self.graph.weight_as(self.dtype, vec![table.name.clone().into()], shape)
    }

    /// Adds word, segment and position embeddings, in the reference's order.
    fn embeddings(&mut self) -> Result<ValueId> {
        let spec = self.spec;
        let mut operands = vec![self.input(Input::Words), self.table(&spec.words)];
        if let Some(table) = &spec.token_types {
            operands.extend([self.input(Input::Segments), self.table(table)]);
        }
        let Positions { table, rows } = &spec.positions;
        operands.extend([self.input(Input::Positions(*rows)), self.table(table)]);
        let mut x = self.graph.node("embeddings", EmbeddingSum {}, &operands)?;
        if let Some(name) = &spec.embedding_norm {
            x = self.norm("embedding norm", name, x, spec.norm_eps)?;
        }
        match &spec.embedding_projection {
            None => Ok(x),
            Some(name) => self.linear("embedding projection", name, x, spec.hidden, true),
        }
    }

    fn norm(&mut self, node: &str, name: &str, x: ValueId, eps: f32) -> Result<ValueId> {
        let columns = Shape::fixed(&[self.graph.value(x).shape.columns()]);
        let weight = self.graph.weight(vec![format!("{name}.weight").into()], columns.clone());
        let bias = self.graph.weight(vec![format!("{name}.bias").into()], columns);
        self.graph.node(node, LayerNorm { eps }, &[x, weight, bias])
    }

    /// `x W^T + b` with the tensors of a torch `Linear`.
    fn linear(&mut self, node: &str, name: &str, x: ValueId, columns: usize, bias: bool) -> Result<ValueId> {
        self.products(node, &[(name.to_owned(), columns)], x, Matrices::ByResult, bias)
    }

    /// `x W^T + b` with the tensors `parts`, each of `columns` columns.
    fn products(
        &mut self,
        node: &str,
        parts: &[(String, usize)],
        x: ValueId,
        matrices: Matrices,
        bias: bool,
    ) -> Result<ValueId> {
        let (input, dtype) = (self.graph.value(x).shape.columns(), self.graph.value(x).dtype);
        let columns = parts.iter().map(|(_, columns)| columns).sum();
        let matrix = |(name, columns): &(String, usize)| match matrices {
            Matrices::ByResult => Part::new(format!("{name}.weight"), &[*columns, input], vec![]),
            Matrices::ByOperand => Part::new(format!("{name}.weight"), &[input, *columns], vec![Recipe::Transposed]),
        };
        let vector = |(name, columns): &(String, usize)| Part::new(format!("{name}.bias"), &[*columns], vec![]);
        let weight = self.graph.weight_as(dtype, parts.iter().map(matrix).collect(), Shape::fixed(&[columns, input]));
        let mut operands = vec![x, weight];
        if bias {
            operands.push(self.graph.weight(parts.iter().map(vector).collect(), Shape::fixed(&[columns])));
        }
        self.graph.node(node, Linear { bias, ..Linear::default() }, &operands)
    }

    fn layer(&mut self, layer: usize, x: ValueId, biases: Option<ValueId>) -> Result<ValueId> {
        let names = &self.spec.names;
        let name = |template: &str| template.replace("{}", &layer.to_string());
        let node = |part: &str| format!("layer {layer} {part}");
        let x = self.residual(&node("attention"), &name(&names.attention_norm), x, |builder, x| {
            let parts: Vec<String> = names.query_key_value.iter().map(|template| name(template)).collect();
            let mixed = builder.attention(&node, &parts, x, biases)?;
            builder.product(&node("attention output"), name(&names.attention_output), mixed, builder.spec.hidden)
        })?;
        self.residual(&node("feed-forward"), &name(&names.feed_forward_norm), x, |builder, x| {
            let spec = builder.spec;
            let wide = builder.product(&node("feed-forward in"), name(&names.feed_forward_in), x, spec.intermediate)?;
            let wide = builder.activation(&node("feed-forward activation"), spec.activation, wide)?;
            builder.product(&node("feed-forward out"), name(&names.feed_forward_out), wide, spec.hidden)
        })
    }

    /// A matrix product of a layer.
    fn product(&mut self, node: &str, name: String, x: ValueId, columns: usize) -> Result<ValueId> {
        self.products(node, &[(name, columns)], x, self.spec.matrices, true)
    }

    /// One part of a layer with its residual, and the norm called `name` at the encoder's place for it.
    fn residual(
        &mut self,
        node: &str,
        name: &str,
        x: ValueId,
        part: impl FnOnce(&mut Self, ValueId) -> Result<ValueId>,
    ) -> Result<ValueId> {
        let (norm, eps) = (format!("{node} norm"), self.spec.norm_eps);
        let y = match self.spec.norm_place {
            NormPlace::Post => part(self, x)?,
            NormPlace::Pre => {
                let normed = self.norm(&norm, name, x, eps)?;
                part(self, normed)?
            }
        };
        let sum = self.graph.node(&format!("{node} residual"), Binary::from(BinaryKind::Add), &[y, x])?;
        match self.spec.norm_place {
            NormPlace::Post => self.norm(&norm, name, sum, eps),
            NormPlace::Pre => Ok(sum),
        }
    }

    fn attention(
        &mut self,
        node: &impl Fn(&str) -> String,
        names: &[String],
        x: ValueId,
        biases: Option<ValueId>,
    ) -> Result<ValueId> {
        let spec = self.spec;
        let (query, key) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
        let parts: Vec<(String, usize)> = match names {
            [all] => vec![(all.clone(), query + 2 * key)],
            names => names.iter().cloned().zip([query, key, key]).collect(),
        };
        let qkv = self.products(&node("query key value"), &parts, x, spec.matrices, true)?;
        let attention = Attention {
            heads: spec.heads,
            kv_heads: spec.kv_heads,
            head_dim: spec.head_dim,
            scale: 1.0 / (spec.head_dim as f32).sqrt(),
            k_column: query,
            v_column: query + key,
            causal: spec.causal,
            bias: biases.is_some(),
            ..Attention::default()
        };
        let offsets = self.input(Input::Offsets);
        let operands: Vec<ValueId> = [qkv, qkv, qkv, offsets, offsets].into_iter().chain(biases).collect();
        self.graph.node(&node("attention"), attention, &operands)
    }

    fn activation(&mut self, node: &str, kind: ActivationKind, x: ValueId) -> Result<ValueId> {
        match kind {
            ActivationKind::Identity => Ok(x),
            _ => self.graph.node(node, Activation::from(kind), &[x]),
        }
    }

    fn heads(&mut self, heads: &[Head], hidden: ValueId) -> Result<ValueId> {
        let mut x = hidden;
        let mut pooled = false;
        let unsupported = |reason: &str| Error::unsupported("modules.json", reason);
        for head in heads {
            if !pooled && !matches!(head, Head::Pooling { .. }) {
                return Err(unsupported("a module stands between the Transformer and Pooling"));
            }
            x = match head {
                Head::Pooling { .. } if pooled => return Err(unsupported("two Pooling modules")),
                Head::Pooling { modes, .. } => {
                    pooled = true;
                    self.pool(modes.clone(), x)?
                }
                Head::Dense { path, input, output, bias, activation, residual } => {
                    self.check_columns(x, *input, &format!("{path}: in_features"))?;
                    // Before the product, so that the sum can become the product's epilogue.
                    let added = match residual {
                        true if input == output => Some(x),
                        true => {
                            let name = format!("{path}/residual");
                            Some(self.linear(&format!("{path} residual"), &name, x, *output, false)?)
                        }
                        false => None,
                    };
                    let y = self.linear(path, &format!("{path}/linear"), x, *output, *bias)?;
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
        if pooled { Ok(x) } else { self.pool(vec![PoolMode::Mean], x) }
    }

    /// Checks the input width that a module states against the output of the module before it.
    fn check_columns(&self, x: ValueId, stated: usize, key: &str) -> Result<()> {
        let columns = self.graph.value(x).shape.columns();
        if columns == stated {
            return Ok(());
        }
        Err(Error::InvalidArgument(format!("{key} is {stated}, but the module before it gives {columns}")))
    }

    fn pool(&mut self, modes: Vec<PoolMode>, x: ValueId) -> Result<ValueId> {
        let (offsets, first) = (self.input(Input::Offsets), self.input(Input::FirstPooled));
        self.graph.node("pooling", Pool { modes }, &[x, offsets, first])
    }
}
