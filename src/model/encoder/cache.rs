//! Caches of keys and values, in a decoding step: states with a row per position.

use super::{Builder, Input};
use crate::Result;
use crate::dtype::DType;
use crate::graph::ValueId;
use crate::model::spec::PositionRows;
use crate::ops::{SetRows, Shape};

impl Builder<'_> {
    /// Keys and values of all tokens so far, given those of a step's tokens, and where those of each text begin. Both may be
    /// columns of one tensor, which has one cache.
    pub(super) fn cached(&mut self, rows: usize, node: &str, [k, v]: [ValueId; 2]) -> Result<([ValueId; 2], ValueId)> {
        let keys = self.append(rows, &format!("{node} keys"), k)?;
        let values = if v == k { keys } else { self.append(rows, &format!("{node} values"), v)? };
        Ok(([keys, values], self.input(Input::KeyOffsets)))
    }

    fn append(&mut self, rows: usize, name: &str, x: ValueId) -> Result<ValueId> {
        let at = self.input(Input::Positions(PositionRows::Counted));
        let shape = Shape::fixed(&[rows, self.graph.value(x).shape.columns()]);
        let cache = self.graph.state(&format!("{name} cache"), shape, DType::F32);
        self.graph.node(name, SetRows {}, &[cache, x, at])
    }
}
