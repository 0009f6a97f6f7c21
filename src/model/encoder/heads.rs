//! What follows the encoder: the head of its checkpoint, and the modules.

use std::ops::Range;

use super::{Builder, Input};
use crate::graph::ValueId;
use crate::model::heads::{Feature, Head, LogitScore, SpladePooling};
use crate::model::spec::{NormKind, Product};
use crate::model::task_head::{HeadStep, Task, TaskHead};
use crate::ops::{ActivationKind, Binary, BinaryKind, Linear, Normalize, Pool, PoolMode, Shape};
use crate::tensor::{Part, Recipe};
use crate::{Error, Result};

/// What follows an encoder.
#[derive(Debug, Clone, Copy)]
pub struct After<'a> {
    /// The head of its checkpoint.
    pub head: Option<&'a TaskHead>,
    /// The modules, in order.
    pub modules: &'a [Head],
    /// The output of the texts.
    pub result: Feature,
}

impl<'a> After<'a> {
    /// Modules that give embeddings.
    pub fn modules(modules: &'a [Head]) -> Self {
        After { head: None, modules, result: Feature::Sentence }
    }
}

/// Words whose logits are computed at a time: logits of a whole vocabulary would need far more memory than the encoder.
const WORDS: usize = 4096;

/// What head and modules have computed so far.
struct Features<'a> {
    tokens: ValueId,
    sentence: Option<ValueId>,
    scores: Option<ValueId>,
    /// The vectors before the last product of a head for words, that product and the steps after it.
    words: Option<(ValueId, &'a [HeadStep])>,
    /// Columns of the texts' vectors after those of `sentence`.
    more: Vec<ValueId>,
}

impl Features<'_> {
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

fn no_words(module: &str) -> Error {
    Error::unsupported("modules.json", format!("{module} reads logits of words, which no module gives"))
}

impl Builder<'_> {
    /// Adds what follows the encoder; returns the outputs. `states` are the embeddings and the results of the layers, of
    /// which head and modules read the last.
    pub(super) fn after(&mut self, after: After<'_>, states: &[ValueId]) -> Result<Vec<ValueId>> {
        let tokens = states[states.len() - 1];
        let mut features = Features { tokens, sentence: None, scores: None, words: None, more: Vec::new() };
        match after.head.map(|head| (head.task, &head.steps[..])) {
            None => {}
            Some((Task::Scores, steps)) => features.scores = Some(self.steps(steps, tokens)?),
            Some((Task::Words | Task::NextWord, steps)) => {
                let last = steps.iter().rposition(|step| matches!(step, HeadStep::Linear { .. }));
                let Some(last) = last else {
                    return Err(Error::InvalidArgument("a head for words has no product".into()));
                };
                features.words = Some((self.steps(&steps[..last], tokens)?, &steps[last..]));
            }
        }
        for head in after.modules {
            self.module(head, &mut features, states)?;
        }
        if after.result == Feature::Tokens {
            return Ok(vec![features.tokens]);
        }
        let result = match features.get(after.result) {
            None if after.result == Feature::Sentence => self.pool("pooling", vec![PoolMode::Mean], features.tokens)?,
            None => {
                let problem = format!("no module gives {}", after.result.name());
                return Err(Error::unsupported("modules.json", problem));
            }
            Some(result) => result,
        };
        Ok([features.tokens, result].into_iter().chain(features.more).collect())
    }

    /// The steps of a head.
    fn steps(&mut self, steps: &[HeadStep], mut x: ValueId) -> Result<ValueId> {
        for step in steps {
            x = match step {
                HeadStep::Pool(mode) => self.pool("head pooling", vec![*mode], x)?,
                HeadStep::Linear { name, bias, columns } => {
                    let product = Product { bias: *bias, ..Product::biased([name]) };
                    self.linear(name, &product, x, &[*columns])?
                }
                HeadStep::Activation(kind) => self.activation("head activation", *kind, x)?,
                HeadStep::SoftCap(cap) => self.soft_cap(*cap, x)?,
                HeadStep::Norm { name, kind, eps } => self.norm_as(*kind, *eps, name, name, x)?,
            };
        }
        Ok(x)
    }

    /// SPLADE vectors of the texts, a slice of the words at a time.
    fn splade(&mut self, pooling: SpladePooling, features: &mut Features<'_>) -> Result<()> {
        let Some((x, [HeadStep::Linear { name, bias, columns }])) = features.words else {
            return Err(no_words("SpladePooling"));
        };
        let mut slices = Vec::new();
        for start in (0..*columns).step_by(WORDS) {
            let rows = start..(start + WORDS).min(*columns);
            let node = |part: &str| format!("words {} to {} {part}", rows.start, rows.end);
            let mut y = self.some_columns(&node("logits"), (name, *bias, *columns), rows.clone(), x)?;
            // Both functions rise, so that of the largest is the largest, and one row per text is left for them.
            if pooling.mode == PoolMode::Max {
                y = self.pool(&node("pooling"), vec![PoolMode::Max], y)?;
            }
            // log(1 + x) is softplus(log x); of 0 that is 0.
            let functions = [ActivationKind::Relu, ActivationKind::Log, ActivationKind::Softplus].into_iter();
            let again = [ActivationKind::Log, ActivationKind::Softplus].into_iter();
            for kind in functions.chain(again.filter(|_| pooling.twice)) {
                y = self.activation(&node("activation"), kind, y)?;
            }
            if pooling.mode != PoolMode::Max {
                y = self.pool(&node("pooling"), vec![pooling.mode], y)?;
            }
            slices.push(y);
        }
        features.sentence = slices.first().copied();
        features.more = slices.split_off(slices.len().min(1));
        Ok(())
    }

    /// The logit of one word of each text, or its logit minus another's; those of other words are not computed.
    fn logit_score(&mut self, score: &LogitScore, features: &Features<'_>) -> Result<ValueId> {
        let Some((x, [HeadStep::Linear { name, bias, columns }, after @ ..])) = features.words else {
            return Err(no_words("LogitScore"));
        };
        let mut logits = Vec::new();
        for id in score.ids()? {
            let id = id as usize;
            let y = self.some_columns(&format!("logit of token {id}"), (name, *bias, *columns), id..id + 1, x)?;
            logits.push(self.steps(after, y)?);
        }
        match logits[..] {
            [one] => Ok(one),
            _ => self.graph.node("difference of logits", Binary::from(BinaryKind::Subtract), &logits),
        }
    }

    /// `c tanh(x / c)`.
    fn soft_cap(&mut self, cap: f32, x: ValueId) -> Result<ValueId> {
        let part = Part::computed(format!("soft cap {cap}"), &[1], std::iter::once(cap));
        let cap = self.graph.weight(vec![part], Shape::fixed(&[1]));
        let y = self.graph.node("soft cap share", Binary::from(BinaryKind::Divide), &[x, cap])?;
        let y = self.activation("soft cap", ActivationKind::Tanh, y)?;
        self.graph.node("soft cap product", Binary::from(BinaryKind::Multiply), &[y, cap])
    }

    /// Some columns of a product of so many.
    fn some_columns(
        &mut self,
        node: &str,
        (name, bias, columns): (&str, bool, usize),
        rows: Range<usize>,
        x: ValueId,
    ) -> Result<ValueId> {
        let (input, dtype) = (self.graph.value(x).shape.columns(), self.graph.value(x).dtype);
        let part = |end: &str, shape: &[usize]| {
            vec![Part::new(format!("{name}.{end}"), shape, vec![Recipe::Rows(rows.clone())])]
        };
        let matrix = part("weight", &[columns, input]);
        let mut operands = vec![x, self.graph.weight_as(dtype, matrix, Shape::fixed(&[rows.len(), input]))];
        if bias {
            operands.push(self.graph.weight(part("bias", &[columns]), Shape::fixed(&[rows.len()])));
        }
        self.graph.node(node, Linear { bias, ..Linear::default() }, &operands)
    }

    fn module(&mut self, head: &Head, features: &mut Features<'_>, states: &[ValueId]) -> Result<()> {
        match head {
            Head::SpladePooling(pooling) => self.splade(*pooling, features)?,
            Head::LogitScore(score) => features.scores = Some(self.logit_score(score, features)?),
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
            Head::Products(products) => features.tokens = self.side_by_side(products, features.tokens)?,
            Head::MultiVectorMask(_) | Head::TokenPooling(_) | Head::Idle(_) => {}
            Head::LayerNorm { path, dimension } => {
                let x = features.read(Feature::Sentence, head)?;
                self.check_columns(x, *dimension, &format!("{path}: dimension"))?;
                let y = self.norm_as(NormKind::Layer { bias: true }, 1e-5, path, &format!("{path}/norm"), x)?;
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

    pub(super) fn pool(&mut self, node: &str, modes: Vec<PoolMode>, x: ValueId) -> Result<ValueId> {
        let (offsets, first) = (self.input(Input::Offsets), self.input(Input::FirstPooled));
        self.graph.node(node, Pool { modes }, &[x, offsets, first])
    }
}
