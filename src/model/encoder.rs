//! The graph builder: from `EncoderSpec` and heads, or a decoder, to a graph.

mod cache;
mod convolutions;
mod dropout;
mod embeddings;
mod experts;
mod feed_forward;
mod heads;
mod layer;
mod norms;
mod products;
mod token_modules;
mod types;

use std::collections::HashMap;

use super::relative_biases::{RelativeBiases, by_slope};
use super::spec::{Adapters, EncoderSpec, PositionRows};
use super::weights::{Content, Needed};
use crate::Result;
use crate::dtype::DType;
use crate::graph::{Graph, Source, ValueId};
use crate::ops::{Dim, EmbeddingSum, PoolMode, Shape};
use crate::tensor::{LowRank, Part, Recipe};
pub use heads::After;
pub use types::Types;

/// The contents of a graph input in a batch; u32 but for the states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Word ids `[T]`.
    Words,
    /// Ids of the next word, the word and the one before it `[T, 3]`; this id where a text has none.
    Neighbours(u32),
    /// Rows of the position table `[T]`.
    Positions(PositionRows),
    /// First token of each text `[B + 1]`.
    Offsets,
    /// Number of leading tokens of each text left out of pooling `[B]`.
    FirstPooled,
    /// Segments `[T]`.
    Segments,
    /// Last hidden states of the texts that a decoder's texts attend to `[R0, hidden]`, float32.
    States,
    /// First state of each text `[B + 1]`.
    StateOffsets,
    /// The number of keys of each text, added up from 0 `[B + 1]`: in a decoding step of those so far, otherwise of the tokens
    /// that are seen.
    KeyOffsets,
    /// The tokens that are seen, of all texts in turn `[R0]`.
    KeyRows,
    /// Of each token 1 if it is seen, else 0 `[T]`.
    Seen,
    /// In training: the words of seed and offset of dropout's random numbers `[4]`.
    DropoutKey,
}

impl Input {
    fn name_and_rows(self) -> (&'static str, Dim) {
        match self {
            Input::Words => ("word ids", Dim::Tokens),
            Input::Neighbours(_) => ("neighbouring word ids", Dim::Tokens),
            Input::Positions(_) => ("positions", Dim::Tokens),
            Input::Offsets => ("offsets", Dim::Boundaries),
            Input::FirstPooled => ("first pooled token", Dim::Texts),
            Input::Segments => ("segments", Dim::Tokens),
            Input::States => ("states", Dim::Counted(STATES)),
            Input::StateOffsets => ("state offsets", Dim::Boundaries),
            Input::KeyOffsets => ("key offsets", Dim::Boundaries),
            Input::KeyRows => ("key rows", Dim::Counted(STATES)),
            Input::Seen => ("seen", Dim::Tokens),
            Input::DropoutKey => ("dropout key", Dim::Fixed(4)),
        }
    }
}

/// Number of the count of [`Input::States`] in a batch, or of [`Input::KeyRows`].
pub const STATES: usize = 0;

/// Indices of the outputs in `Graph::outputs`.
pub mod outputs {
    /// One vector per token `[T, H]`: the last hidden state, unless a module after an encoder replaces it.
    pub const TOKENS: usize = 0;
    /// What an encoder and its modules compute of each text `[B, D]`: its vector, or its scores; none of a model whose result
    /// are the tokens' vectors. All later outputs are further columns of these rows.
    pub const TEXTS: usize = 1;
}

/// A graph and the contents of its inputs.
#[derive(Debug, Clone)]
pub struct Built {
    /// Outputs: those of [`outputs`].
    pub graph: Graph,
    /// In the order of [`Graph::inputs`].
    pub inputs: Vec<Input>,
    /// The embeddings and the result of each layer; the last is the last hidden state, norm included.
    pub states: Vec<ValueId>,
}

/// Builds the graph of an encoder and what follows it. Tables, matrices and all results before pooling are stored as `dtype`;
/// vectors of weights and later results as float32. [`Types`] says which are float32 in any case.
///
/// # Errors
/// `InvalidArgument` when modules do not fit together.
pub fn build(spec: &EncoderSpec, after: After<'_>, dtype: DType) -> Result<Built> {
    let Types { dtype, stream, .. } = Types::of(spec, dtype);
    let adapters = spec.adapters.as_ref();
    let mut builder = Builder { adapters, stream, ..Builder::new(spec, dtype) };
    let states = builder.states()?;
    builder.adapters = None;
    builder.graph.outputs = builder.after(after, &states)?;
    Ok(Built { graph: builder.graph, inputs: builder.inputs, states })
}

/// Builds the graph of embeddings and layers, stored as `dtype` as in [`build`], whose only output is the last hidden state.
///
/// With `cache` it is of the last tokens of a text whose keys and values, of up to so many tokens, are in states; a step
/// adds those of its tokens.
///
/// # Errors
/// As [`build`].
pub fn build_stack(spec: &EncoderSpec, dtype: DType, cache: Option<usize>) -> Result<Built> {
    let mut builder = Builder { cache, ..Builder::new(spec, dtype) };
    let states = builder.states()?;
    builder.graph.outputs = states[spec.layers.len()..].to_vec();
    Ok(Built { graph: builder.graph, inputs: builder.inputs, states })
}

/// The graph of the embeddings and the first layers of one of [`build`], whose only output is the mean of each text's tokens.
///
/// # Errors
/// As [`build`].
pub fn first_layers(built: &Built, spec: &EncoderSpec, layers: usize) -> Result<Built> {
    let Built { graph, inputs, states } = built.clone();
    let mut builder = Builder { graph, inputs, ..Builder::new(spec, DType::F32) };
    builder.graph.outputs = vec![builder.pool("pooling", vec![PoolMode::Mean], states[layers])?];
    Ok(Built { graph: builder.graph, inputs: builder.inputs, states: states[..=layers].to_vec() })
}

/// Names and stored shapes of all tensors that a graph reads.
pub fn needed(graph: &Graph) -> Vec<Needed> {
    let mut needed = Vec::new();
    for value in &graph.values {
        if let Source::Weight(weight) = &value.source {
            let own = || value.shape.sizes(Default::default());
            let stored = |part: &Part| part.shape.clone().unwrap_or_else(own);
            for part in weight.parts.iter().filter(|part| part.computed.is_none()) {
                let shape = stored(part);
                if let (Some(product), [rows, columns]) = (&part.added, &shape[..]) {
                    let factors = product.tensors(*rows, *columns);
                    let of = |(name, axes): (&str, [usize; 3])| (name.to_owned(), axes.into(), Content::Numbers);
                    needed.extend(factors.map(of));
                }
                let content = match part.recipe.first() {
                    Some(Recipe::Unpacked) => Content::Codes,
                    Some(Recipe::Divisor(_)) => Content::Scales,
                    _ => Content::Numbers,
                };
                needed.push((part.name.clone(), shape, content));
            }
        }
    }
    needed.into_iter().map(|(name, shape, content)| Needed { name, shape, content }).collect()
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
    /// Those of what is built next: of the encoder, not of the modules after it.
    adapters: Option<&'a Adapters>,
    dtype: DType,
    /// Of the hidden state that the parts of layers are added to.
    stream: DType,
    /// Places of dropout so far, each of which has random numbers of its own.
    streams: u32,
    /// In a decoding step: the rows of its caches.
    cache: Option<usize>,
    /// Values as integers, with the scales of their rows.
    integers: HashMap<ValueId, [ValueId; 2]>,
}

impl<'a> Builder<'a> {
    fn new(spec: &'a EncoderSpec, dtype: DType) -> Self {
        Builder {
            graph: Graph::new(),
            inputs: Vec::new(),
            spec,
            adapters: None,
            dtype,
            stream: dtype,
            streams: 0,
            cache: None,
            integers: HashMap::new(),
        }
    }
}

impl Builder<'_> {
    /// The value of an input, created on first use.
    fn input(&mut self, input: Input) -> ValueId {
        if let Some(place) = self.inputs.iter().position(|known| *known == input) {
            return self.graph.inputs[place];
        }
        self.inputs.push(input);
        let (name, rows) = input.name_and_rows();
        match input {
            Input::States => self.graph.input(name, Shape::matrix(rows, self.spec.hidden), DType::F32),
            Input::Neighbours(_) => self.graph.input(name, Shape::matrix(rows, 3), DType::U32),
            _ => self.graph.input(name, Shape::vector(rows), DType::U32),
        }
    }

    /// The embeddings and the result of each layer; the last is the last hidden state, norm included.
    fn states(&mut self) -> Result<Vec<ValueId>> {
        let spec = self.spec;
        let mut hidden = self.embeddings()?;
        let mut states = vec![hidden];
        let shared = self.shared()?;
        for (number, layer) in spec.layers.iter().enumerate() {
            hidden = self.layer(number, layer, hidden, &shared)?;
            states.push(hidden);
        }
        if let Some(name) = &spec.final_norm {
            states.pop();
            states.push(self.norm("final norm", name, hidden)?);
        }
        Ok(states)
    }

    /// What the chosen adapter adds to the matrix `NAME.weight`: the product of these two tensors.
    fn adapted(&self, name: &str, [left, right]: [&str; 2]) -> Option<LowRank> {
        let adapters = self.adapters?;
        let factor = |end: &str| format!("{name}.{end}");
        Some(LowRank {
            left: factor(left),
            right: factor(right),
            sets: adapters.tasks.len(),
            set: adapters.chosen?,
            rank: adapters.rank,
            scale: adapters.scale.to_bits(),
        })
    }

    /// The constant of biases by distance.
    fn biases_by_distance(&mut self, biases: &RelativeBiases) -> ValueId {
        let (heads, distances) = (self.spec.heads, biases.distances());
        self.graph.weight(vec![biases.part(heads)], Shape::fixed(&[heads, distances]))
    }

    fn shared(&mut self) -> Result<Shared> {
        let spec = self.spec;
        let shared = spec.layers.iter().any(|layer| layer.relative_biases.is_none());
        let biases = match &spec.relative_biases {
            Some(biases) => shared.then(|| self.biases_by_distance(biases)),
            None if spec.slopes.is_empty() => None,
            None => {
                let (part, distances) = by_slope(&spec.slopes, spec.positions.longest_text())?;
                Some(self.graph.weight(vec![part], Shape::fixed(&[spec.heads, distances])))
            }
        };
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
            let name = format!("rotary {kind}");
            let [cosines, sines] = positions.tables(&name, spec.positions.longest_text())?;
            let shape = Shape::fixed(&[rows, positions.frequencies.len()]);
            let mut of_tokens = |what: &str, part: Part| {
                let table = self.graph.weight(vec![part], shape.clone());
                self.graph.node(&format!("{name} {what}"), EmbeddingSum {}, &[at, table])
            };
            rotary.push([of_tokens("cosines", cosines)?, of_tokens("sines", sines)?]);
        }
        Ok(Shared { biases, distances, rotary })
    }
}
