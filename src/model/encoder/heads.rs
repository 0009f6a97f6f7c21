//! The modules after the encoder.

use super::{Builder, Input};
use crate::graph::ValueId;
use crate::model::heads::{Feature, Head};
use crate::model::spec::{NormKind, Product};
use crate::ops::{Binary, BinaryKind, Normalize, Pool, PoolMode, Shape};
use crate::tensor::{Part, Recipe};
use crate::{Error, Result};

/// What the modules have computed so far.
struct Features {
    tokens: ValueId,
    sentence: Option<ValueId>,
}

impl Features {
    fn read(&self, feature: Feature, head: &Head) -> Result<ValueId> {
        let found = match feature {
            Feature::Tokens => Some(self.tokens),
            Feature::Sentence => self.sentence,
        };
        let (name, what) = (head.shown().0, feature.name());
        let missing =
            || Error::unsupported("modules.json", format!("{name} reads {what}, which no module before it gives"));
        found.ok_or_else(missing)
    }

    fn write(&mut self, feature: Feature, x: ValueId) {
        match feature {
            Feature::Tokens => self.tokens = x,
            Feature::Sentence => self.sentence = Some(x),
        }
    }
}

impl Builder<'_> {
    /// Adds the modules; returns the tokens' vectors and the texts'. `states` are the embeddings and the results of the
    /// layers, of which the modules read the last.
    pub(super) fn heads(&mut self, heads: &[Head], states: &[ValueId]) -> Result<[ValueId; 2]> {
        let mut features = Features { tokens: states[states.len() - 1], sentence: None };
        for head in heads {
            match head {
                Head::WeightedLayerPooling { path, layers, first } => {
                    features.tokens = self.weighted_layers(path, *layers, *first, states)?;
                }
                Head::Pooling { .. } if features.sentence.is_some() => {
                    return Err(Error::unsupported("modules.json", "two Pooling modules"));
                }
                Head::Pooling { modes, .. } => features.sentence = Some(self.pool(modes.clone(), features.tokens)?),
                Head::Dense { path, of, input, output, bias, activation, residual } => {
                    let x = features.read(*of, head)?;
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
                    let y = match added {
                        Some(added) => {
                            self.graph.node(&format!("{path} sum"), Binary::from(BinaryKind::Add), &[y, added])?
                        }
                        None => y,
                    };
                    features.write(*of, y);
                }
                Head::Idle(_) => {}
                Head::LayerNorm { path, dimension } => {
                    let x = features.read(Feature::Sentence, head)?;
                    self.check_columns(x, *dimension, &format!("{path}: dimension"))?;
                    let y = self.norm_as(NormKind::Layer, 1e-5, path, &format!("{path}/norm"), x)?;
                    features.write(Feature::Sentence, y);
                }
                Head::Normalize { of } => {
                    let x = features.read(*of, head)?;
                    let y = self.graph.node("normalize", Normalize::default(), &[x])?;
                    features.write(*of, y);
                }
            }
        }
        let sentence = features.sentence.map_or_else(|| self.pool(vec![PoolMode::Mean], features.tokens), Ok)?;
        Ok([features.tokens, sentence])
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

    /// `sum_s w_s h_s / sum_s w_s` over the states from `first` on.
    fn weighted_layers(&mut self, path: &str, layers: usize, first: usize, states: &[ValueId]) -> Result<ValueId> {
        if states.len() != layers + 1 {
            let found = states.len() - 1;
            let problem = format!("{path}: num_hidden_layers is {layers}, but the encoder has {found}");
            return Err(Error::InvalidArgument(problem));
        }
        let count = states.len() - first;
        let mut sum: Option<ValueId> = None;
        for (number, state) in states[first..].iter().enumerate() {
            let node = |part: &str| format!("{path} {part} {}", first + number);
            let (columns, dtype) = (self.graph.value(*state).shape.columns(), self.graph.value(*state).dtype);
            // One number for each column, as a product of 16-bit rows needs.
            let recipe = vec![Recipe::Shares, Recipe::Gathered(vec![number; columns])];
            let part = Part::new(format!("{path}/layer_weights"), &[count], recipe);
            let weight = self.graph.weight_as(dtype, vec![part], Shape::fixed(&[columns]));
            let x = self.graph.node(&node("share of state"), Binary::from(BinaryKind::Multiply), &[*state, weight])?;
            sum = Some(match sum {
                None => x,
                Some(sum) => self.graph.node(&node("sum to state"), Binary::from(BinaryKind::Add), &[x, sum])?,
            });
        }
        sum.ok_or_else(|| Error::InvalidArgument(format!("{path}: no states")))
    }
}
