//! What follows the encoder: the head of its checkpoint, and the modules.

use super::{After, Builder, Input};
use crate::graph::ValueId;
use crate::model::heads::{Feature, Head};
use crate::model::spec::{NormKind, Product};
use crate::model::task_head::{Step, TaskHead};
use crate::ops::{Binary, BinaryKind, Normalize, Pool, PoolMode, Shape};
use crate::tensor::{Part, Recipe};
use crate::{Error, Result};

/// What head and modules have computed so far.
struct Features {
    tokens: ValueId,
    sentence: Option<ValueId>,
    scores: Option<ValueId>,
}

impl Features {
    fn get(&self, feature: Feature) -> Option<ValueId> {
        match feature {
            Feature::Tokens => Some(self.tokens),
            Feature::Sentence => self.sentence,
            Feature::Scores => self.scores,
        }
    }

    fn read(&self, feature: Feature, head: &Head) -> Result<ValueId> {
        self.get(feature).ok_or_else(|| {
            let (name, what) = (head.shown().0, feature.name());
            Error::unsupported("modules.json", format!("{name} reads {what}, which no module before it gives"))
        })
    }

    fn write(&mut self, feature: Feature, x: ValueId) {
        match feature {
            Feature::Tokens => self.tokens = x,
            Feature::Sentence => self.sentence = Some(x),
            Feature::Scores => self.scores = Some(x),
        }
    }
}

impl Builder<'_> {
    /// Adds what follows the encoder; returns the outputs of the tokens and of the texts. `states` are the embeddings
    /// and the results of the layers, of which head and modules read the last.
    pub(super) fn after(&mut self, after: After<'_>, states: &[ValueId]) -> Result<[ValueId; 2]> {
        let mut features = Features { tokens: states[states.len() - 1], sentence: None, scores: None };
        if let Some(head) = after.head {
            features.scores = Some(self.head(head, features.tokens)?);
        }
        for head in after.modules {
            self.module(head, &mut features, states)?;
        }
        let result = match features.get(after.result) {
            None if after.result == Feature::Sentence => self.pool("pooling", vec![PoolMode::Mean], features.tokens)?,
            None => {
                let problem = format!("no module gives {}", after.result.name());
                return Err(Error::unsupported("modules.json", problem));
            }
            Some(result) => result,
        };
        Ok([features.tokens, result])
    }

    /// The head of a checkpoint, of the last hidden state.
    fn head(&mut self, head: &TaskHead, mut x: ValueId) -> Result<ValueId> {
        for step in &head.steps {
            x = match step {
                Step::Pool(mode) => self.pool("head pooling", vec![*mode], x)?,
                Step::Linear { name, bias, columns } => {
                    let product = Product { bias: *bias, ..Product::biased([name]) };
                    self.linear(name, &product, x, &[*columns])?
                }
                Step::Activation(kind) => self.activation("head activation", *kind, x)?,
                Step::Norm { name, kind, eps } => self.norm_as(*kind, *eps, name, name, x)?,
            };
        }
        Ok(x)
    }

    fn module(&mut self, head: &Head, features: &mut Features, states: &[ValueId]) -> Result<()> {
        match head {
            Head::WeightedLayerPooling { path, layers, first } => {
                features.tokens = self.weighted_layers(path, *layers, *first, states)?;
            }
            Head::Pooling { .. } if features.sentence.is_some() => {
                return Err(Error::unsupported("modules.json", "two Pooling modules"));
            }
            Head::Pooling { modes, .. } => {
                features.sentence = Some(self.pool("pooling", modes.clone(), features.tokens)?);
            }
            Head::Dense { path, of, gives, input, output, bias, activation, residual } => {
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
                features.write(*gives, y);
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
        Ok(())
    }

    /// Checks the input width that a module states against the output of the module before it.
    fn check_columns(&self, x: ValueId, stated: usize, key: &str) -> Result<()> {
        let columns = self.graph.value(x).shape.columns();
        if columns == stated {
            return Ok(());
        }
        Err(Error::InvalidArgument(format!("{key} is {stated}, but the module before it gives {columns}")))
    }

    fn pool(&mut self, node: &str, modes: Vec<PoolMode>, x: ValueId) -> Result<ValueId> {
        let (offsets, first) = (self.input(Input::Offsets), self.input(Input::FirstPooled));
        self.graph.node(node, Pool { modes }, &[x, offsets, first])
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
