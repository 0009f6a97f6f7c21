//! The modules after the encoder.

use super::{Builder, Input};
use crate::graph::ValueId;
use crate::model::heads::Head;
use crate::model::spec::{NormKind, Product};
use crate::ops::{Binary, BinaryKind, Normalize, Pool, PoolMode};
use crate::{Error, Result};

impl Builder<'_> {
    pub(super) fn heads(&mut self, heads: &[Head], hidden: ValueId) -> Result<ValueId> {
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
