//! Dropout in training, at the places of GPT-2 (Radford et al. 2019), numbered in the order of the graph: 0 for the
//! embeddings; of layer `n` `3 n + 1` for the weights of attention, `3 n + 2` and `3 n + 3` for what its two parts add.

use super::{Builder, Input};
use crate::Result;
use crate::graph::ValueId;
use crate::ops::Dropout;

impl Builder<'_> {
    /// In training `x` with some elements zero.
    pub(super) fn dropout(&mut self, node: &str, x: ValueId) -> Result<ValueId> {
        match self.dropout_key() {
            None => Ok(x),
            Some((stream, key)) => {
                let dropout = Dropout { p: self.spec.dropout, seed: 0, offset: 0, stream };
                self.graph.node(&format!("{node} dropout"), dropout, &[x, key])
            }
        }
    }

    /// The number of the next place of dropout, and the key of all; `None` without dropout.
    pub(super) fn dropout_key(&mut self) -> Option<(u32, ValueId)> {
        (self.spec.dropout > 0.0).then(|| {
            self.streams += 1;
            (self.streams - 1, self.input(Input::DropoutKey))
        })
    }
}
