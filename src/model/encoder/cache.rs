//! Keys and values that are not those of all tokens: caches, in a decoding step, with a row per position; and those of the tokens
//! that are seen.

use super::{Builder, Input};
use crate::Result;
use crate::dtype::DType;
use crate::graph::ValueId;
use crate::model::spec::PositionRows;
use crate::ops::{EmbeddingSum, SetRows, Shape};

impl Builder<'_> {
    /// Keys and values of all tokens so far, given those of a step's tokens, and where those of each text begin. Both may be
    /// columns of one tensor, which has one cache.
    pub(super) fn cached(&mut self, rows: usize, node: &str, [k, v]: [ValueId; 2]) -> Result<([ValueId; 2], ValueId)> {
        let keys = self.append(rows, &format!("{node} keys"), k)?;
        let values = if v == k { keys } else { self.append(rows, &format!("{node} values"), v)? };
        Ok(([keys, values], self.input(Input::KeyOffsets)))
    }

    /// Keys and values of the tokens that are seen, one text after the other, and where those of each text begin.
    pub(super) fn seen(&mut self, node: &str, [k, v]: [ValueId; 2]) -> Result<([ValueId; 2], ValueId)> {
        let rows = self.input(Input::KeyRows);
        let keys = self.graph.node(&format!("{node} keys"), EmbeddingSum {}, &[rows, k])?;
        let values = match v == k {
            true => keys,
            false => self.graph.node(&format!("{node} values"), EmbeddingSum {}, &[rows, v])?,
        };
        Ok(([keys, values], self.input(Input::KeyOffsets)))
    }

    fn append(&mut self, rows: usize, name: &str, x: ValueId) -> Result<ValueId> {
        let at = self.input(Input::Positions(PositionRows::Counted));
        let shape = Shape::fixed(&[rows, self.graph.value(x).shape.columns()]);
        let cache = self.graph.state(&format!("{name} cache"), shape, DType::F32);
        self.graph.node(name, SetRows {}, &[cache, x, at])
    }
}
