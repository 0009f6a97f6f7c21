//! The graph builder: from `EncoderSpec` and heads to a graph.

use super::heads::Head;
use super::relative_biases::by_slope;
use super::spec::{EncoderSpec, Layer, NormKind, Norms, Order, PositionRows, Positions, Product, Table};
use super::weights::Needed;
use crate::dtype::DType;
use crate::graph::{Graph, Source, ValueId};
use crate::ops::{
    Activation, ActivationKind, Attention, Binary, BinaryKind, Dim, EmbeddingSum, Gated, LayerNorm, Linear, Normalize,
    Pool, PoolMode, RmsNorm, Rope, Shape,
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
/// vectors of weights and later results as float32. Values beyond float16's range are stored as float32.
///
/// # Errors
/// `InvalidArgument` when modules do not fit together.
pub fn build(spec: &EncoderSpec, heads: &[Head], dtype: DType) -> Result<Encoder> {
    let dtype = if spec.beyond_float16 && dtype == DType::F16 { DType::F32 } else { dtype };
    let mut builder = Builder { graph: Graph::new(), inputs: Vec::new(), spec, dtype };
    let mut hidden = builder.embeddings()?;
    let shared = builder.shared()?;
    for (number, layer) in spec.layers.iter().enumerate() {
        hidden = builder.layer(number, layer, hidden, &shared)?;
    }
    if let Some(name) = &spec.final_norm {
        hidden = builder.norm("final norm", name, hidden)?;
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
            let stored_parts = weight.parts.iter().filter(|part| part.computed.is_none());
            needed.extend(stored_parts.map(|part| Needed { name: part.name.clone(), shape: stored(part) }));
        }
    }
    needed
}

/// The constants that layers share.
struct Shared {
    /// Biases of the scores by distance.
    biases: Option<ValueId>,
    /// Vectors by distance.
    distances: Option<ValueId>,
    /// Cosines and sines of each token, for every kind of rotary positions.
    rotary: Vec<[ValueId; 2]>,
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
        let mut words = Part::from(spec.words.name.clone());
        if spec.word_scale != 1.0 {
            let mut scale = [spec.word_scale];
            if spec.word_scale_rounded {
                self.dtype.round(&mut scale);
            }
            words.recipe.push(Recipe::scaled(scale[0]));
        }
        let shape = Shape::fixed(&[spec.words.rows, spec.embedding]);
        let mut operands = vec![self.input(Input::Words), self.graph.weight_as(self.dtype, vec![words], shape)];
        if let Some(table) = &spec.token_types {
            operands.extend([self.input(Input::Segments), self.table(table)]);
        }
        if let Positions::Learned { table, rows } = &spec.positions {
            operands.extend([self.input(Input::Positions(*rows)), self.table(table)]);
        }
        let mut x = self.graph.node("embeddings", EmbeddingSum {}, &operands)?;
        if let Some(name) = &spec.embedding_norm {
            x = self.norm("embedding norm", name, x)?;
        }
        match &spec.embedding_projection {
            None => Ok(x),
            Some(name) => self.linear("embedding projection", &Product::biased([name]), x, &[spec.hidden]),
        }
    }

    fn shared(&mut self) -> Result<Shared> {
        let spec = self.spec;
        let alibi = || by_slope(&spec.slopes, spec.positions.longest_text());
        let biases = spec.relative_biases.as_ref().map(|biases| (biases.part(spec.heads), biases.distances()));
        let biases = biases.or_else(|| (!spec.slopes.is_empty()).then(alibi));
        let biases =
            biases.map(|(part, distances)| self.graph.weight(vec![part], Shape::fixed(&[spec.heads, distances])));
        let distances = match &spec.distances {
            None => None,
            Some(found) => {
                let shape = Shape::fixed(&[found.rows.len(), spec.hidden]);
                let x = self.graph.weight_as(self.dtype, vec![found.part(spec.hidden)], shape);
                Some(found.norm.as_ref().map_or(Ok(x), |name| self.norm("distances norm", name, x))?)
            }
        };
        let mut rotary = Vec::new();
        for (kind, positions) in spec.rotary.iter().enumerate() {
            let (places, rows) = positions.rows(spec.positions.longest_text());
            let at = self.input(Input::Positions(places));
            let tables = positions.tables(&format!("rotary {kind}"), spec.positions.longest_text());
            let shape = Shape::fixed(&[rows, positions.frequencies.len()]);
            let tables = tables.map(|part| {
                let name = part.name.clone();
                let table = self.graph.weight(vec![part], shape.clone());
                self.graph.node(&name, EmbeddingSum {}, &[at, table])
            });
            let [cosines, sines] = tables;
            rotary.push([cosines?, sines?]);
        }
        Ok(Shared { biases, distances, rotary })
    }

    /// The encoder's kind of norm.
    fn norm(&mut self, node: &str, name: &str, x: ValueId) -> Result<ValueId> {
        self.norm_as(self.spec.norm, self.spec.norm_eps, node, name, x)
    }

    fn norm_as(&mut self, kind: NormKind, eps: f32, node: &str, name: &str, x: ValueId) -> Result<ValueId> {
        let columns = Shape::fixed(&[self.graph.value(x).shape.columns()]);
        let mut part = Part::from(format!("{name}.weight"));
        if kind == NormKind::RmsPlusOne {
            part.recipe.push(Recipe::PlusOne);
        }
        let weight = self.graph.weight(vec![part], columns.clone());
        let bias = match kind {
            NormKind::Rms | NormKind::RmsPlusOne => return self.graph.node(node, RmsNorm { eps }, &[x, weight]),
            NormKind::Layer => self.graph.weight(vec![format!("{name}.bias").into()], columns),
            NormKind::LayerWithoutBias => self.graph.filled(0.0, columns),
        };
        self.graph.node(node, LayerNorm { eps }, &[x, weight, bias])
    }

    /// `x W^T + b` with the tensors of a product, whose results have so many columns each.
    fn linear(&mut self, node: &str, product: &Product, x: ValueId, columns: &[usize]) -> Result<ValueId> {
        self.scaled(node, product, x, columns, 1.0)
    }

    /// As [`Builder::linear`], times `scale`, which the constants contain.
    fn scaled(&mut self, node: &str, product: &Product, x: ValueId, columns: &[usize], scale: f32) -> Result<ValueId> {
        let (input, dtype) = (self.graph.value(x).shape.columns(), self.graph.value(x).dtype);
        let total: usize = columns.iter().sum();
        let each = if product.names.len() == 1 { vec![total] } else { columns.to_vec() };
        let stored = |end: &str, vector: bool| -> Vec<Part> {
            let parts = product.names.iter().zip(&each).flat_map(|(name, rows)| {
                let part = |shape: &[usize], recipe| Part::new(format!("{name}.{end}"), shape, recipe);
                let shape = if vector { vec![*rows] } else { vec![*rows, input] };
                match product.order {
                    Order::ByOperand if !vector => vec![part(&[input, *rows], vec![Recipe::Transposed])],
                    Order::ByResult | Order::ByOperand => vec![part(&shape, vec![])],
                    Order::ByHead => {
                        let by_part = Recipe::part_by_part(self.spec.heads, 3, self.spec.head_dim);
                        vec![part(&shape, vec![by_part])]
                    }
                    Order::GateFirst => {
                        [rows / 2..*rows, 0..rows / 2].map(|half| part(&shape, vec![Recipe::Rows(half)])).into()
                    }
                }
            });
            let scaled = parts.map(|mut part| {
                part.recipe.extend((scale != 1.0).then(|| Recipe::scaled(scale)));
                part
            });
            scaled.collect()
        };
        let (matrix, vector) = (stored("weight", false), stored("bias", true));
        let mut operands = vec![x, self.graph.weight_as(dtype, matrix, Shape::fixed(&[total, input]))];
        if product.bias {
            operands.push(self.graph.weight(vector, Shape::fixed(&[total])));
        }
        self.graph.node(node, Linear { bias: product.bias, ..Linear::default() }, &operands)
    }

    fn layer(&mut self, number: usize, layer: &Layer, x: ValueId, shared: &Shared) -> Result<ValueId> {
        let node = |part: &str| format!("layer {number} {part}");
        let spec = self.spec;
        let attended = self.residual(&node("attention"), &layer.attention_norms, [x, x], |builder, x| {
            let mixed = builder.attention(&node, layer, x, shared)?;
            let scale = spec.residual_scale;
            builder.scaled(&node("attention output"), &layer.attention_output, mixed, &[spec.hidden], scale)
        })?;
        let read = if spec.parallel { x } else { attended };
        self.residual(&node("feed-forward"), &layer.feed_forward_norms, [read, attended], |builder, x| {
            let wide = builder.feed_forward_in(&node, layer, x)?;
            let scale = spec.residual_scale;
            builder.scaled(&node("feed-forward out"), &layer.feed_forward_out, wide, &[spec.hidden], scale)
        })
    }

    fn feed_forward_in(&mut self, node: &impl Fn(&str) -> String, layer: &Layer, x: ValueId) -> Result<ValueId> {
        let (spec, name) = (self.spec, node("feed-forward activation"));
        let columns = vec![spec.intermediate; if spec.gated { 2 } else { 1 }];
        let wide = self.linear(&node("feed-forward in"), &layer.feed_forward_in, x, &columns)?;
        match spec.gated {
            true => self.graph.node(&name, Gated(Activation::from(spec.activation)), &[wide]),
            false => self.activation(&name, spec.activation, wide),
        }
    }

    /// One part of a layer, computed from the first value and added to the second, with its norms.
    fn residual(
        &mut self,
        node: &str,
        norms: &Norms,
        [x, onto]: [ValueId; 2],
        part: impl FnOnce(&mut Self, ValueId) -> Result<ValueId>,
    ) -> Result<ValueId> {
        let norm = format!("{node} norm");
        let mut y = match &norms.before {
            Some(name) => self.norm(&norm, name, x)?,
            None => x,
        };
        y = part(self, y)?;
        if let Some(name) = &norms.after {
            y = self.norm(&format!("{node} norm after"), name, y)?;
        }
        let sum = self.graph.node(&format!("{node} residual"), Binary::from(BinaryKind::Add), &[y, onto])?;
        match &norms.sum {
            Some(name) => self.norm(&norm, name, sum),
            None => Ok(sum),
        }
    }

    fn attention(
        &mut self,
        node: &impl Fn(&str) -> String,
        layer: &Layer,
        x: ValueId,
        shared: &Shared,
    ) -> Result<ValueId> {
        let spec = self.spec;
        let (query, key) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
        let mut attention = Attention {
            heads: spec.heads,
            kv_heads: spec.kv_heads,
            head_dim: spec.head_dim,
            scale: spec.score_scale.unwrap_or_else(|| 1.0 / (spec.head_dim as f32).sqrt()),
            soft_cap: spec.score_cap,
            causal: spec.causal,
            window: layer.window,
            bias: shared.biases.is_some(),
            ..Attention::default()
        };
        let angles = layer.rotary.map(|kind| shared.rotary[kind]);
        let qkv = match &layer.head_norms {
            None => {
                let columns = [query, key, key];
                let qkv = self.linear(&node("query key value"), &layer.query_key_value, x, &columns)?;
                (attention.k_column, attention.v_column) = (query, query + key);
                match angles {
                    None => [qkv; 3],
                    Some(angles) => {
                        let rotated = spec.heads + spec.kv_heads;
                        let both = self.rotated(&node("rotary"), qkv, rotated + spec.kv_heads, rotated, angles)?;
                        [both, both, qkv]
                    }
                }
            }
            Some(norms) => {
                let mut parts = Vec::new();
                for (part, (name, columns)) in layer.query_key_value.names.iter().zip([query, key, key]).enumerate() {
                    let label = node(["query", "key", "value"][part]);
                    let product = Product { names: vec![name.clone()], ..layer.query_key_value.clone() };
                    let mut y = self.linear(&label, &product, x, &[columns])?;
                    if let Some(norm) = norms.get(part) {
                        let heads = self.heads_of(&label, y, columns / spec.head_dim);
                        y = self.norm(&format!("{label} norm"), norm, heads)?;
                        if let Some(angles) = angles {
                            let heads = columns / spec.head_dim;
                            y = self.rotated(&format!("{label} rotary"), y, heads, heads, angles)?;
                        }
                        y = self.rows_of(&label, y);
                    }
                    parts.push(y);
                }
                [parts[0], parts[1], parts[2]]
            }
        };
        let mut met = None;
        if let Some(x) = shared.distances {
            let names: Vec<&String> = layer.by_distance.iter().flatten().collect();
            let columns = vec![key; names.len()];
            met = Some(self.linear(&node("distances"), &Product::biased(names), x, &columns)?);
            let [a, b] = &layer.by_distance;
            let second = if a.is_some() { key } else { 0 };
            attention.distances = Some([a.as_ref().map(|_| 0), b.as_ref().map(|_| second)]);
        }
        let offsets = self.input(Input::Offsets);
        let operands: Vec<ValueId> =
            qkv.into_iter().chain([offsets, offsets]).chain(shared.biases).chain(met).collect();
        self.graph.node(&node("attention"), attention, &operands)
    }

    /// `[T, heads * head_dim]` as `[T, heads, head_dim]`.
    fn heads_of(&mut self, name: &str, x: ValueId, heads: usize) -> ValueId {
        let rows = self.graph.value(x).shape.rows();
        self.graph.view(name, x, Shape(vec![rows, Dim::Fixed(heads), Dim::Fixed(self.spec.head_dim)]))
    }

    /// `[T, ...]` as `[T, all other axes]`.
    fn rows_of(&mut self, name: &str, x: ValueId) -> ValueId {
        let shape = &self.graph.value(x).shape;
        let shape = Shape::matrix(shape.rows(), shape.row_elements());
        self.graph.view(name, x, shape)
    }

    /// The first `rotated` of so many heads, turned by the angles of their positions.
    fn rotated(
        &mut self,
        node: &str,
        x: ValueId,
        heads: usize,
        rotated: usize,
        [cosines, sines]: [ValueId; 2],
    ) -> Result<ValueId> {
        let x = self.heads_of(node, x, heads);
        let y = self.graph.node(node, Rope { heads: Some(rotated) }, &[x, cosines, sines])?;
        Ok(self.rows_of(node, y))
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
                            let product = Product::plain([format!("{path}/residual")]);
                            Some(self.linear(&format!("{path} residual"), &product, x, &[*output])?)
                        }
                        false => None,
                    };
                    let product = Product { bias: *bias, ..Product::biased([format!("{path}/linear")]) };
                    let y = self.linear(path, &product, x, &[*output])?;
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
                    self.norm_as(NormKind::Layer, 1e-5, path, &format!("{path}/norm"), x)?
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
