//! Values that gradients read and that are computed again, so that they are not kept in memory.

use std::collections::HashSet;

use super::Copies;
use crate::Result;
use crate::graph::{Graph, Node, Source, ValueId};
use crate::ops::Op;

impl Graph {
    /// The copy of a value that costs less to compute again than to keep in memory: a row's norm or an activation, whose
    /// operands its own gradient reads. Any other value itself.
    pub(super) fn light_copy(&mut self, id: ValueId, light: &mut Copies) -> Result<ValueId> {
        let (seen, shape) = (self.seen(id), self.value(id).shape.clone());
        let Some((place, _)) = self.producer(seen) else { return Ok(id) };
        let Node { op, operands, .. } = &self.nodes[place];
        let is_light = matches!(op, Op::LayerNorm(_) | Op::RmsNorm(_) | Op::Activation(_));
        if !is_light || operands.iter().any(|id| self.updated_by(*id).is_some()) {
            return Ok(id);
        }
        if !light.contains_key(&seen) {
            light.extend(self.computed_again(place..place + 1, &HashSet::new())?);
        }
        Ok(light.get(&seen).map_or(id, |copy| self.shaped(*copy, &shape)))
    }

    /// The copy of a value that is computed again, seen as it is; any other value itself.
    pub(super) fn copy_of(&mut self, id: ValueId, copies: &mut Copies) -> ValueId {
        if let Some(copy) = copies.get(&id) {
            return *copy;
        }
        let Source::View(of) = self.value(id).source else { return id };
        let copy = match self.copy_of(of, copies) {
            same if same == of => id,
            copy => {
                let (name, shape) = (self.value(id).name.clone(), self.value(id).shape.clone());
                self.view(&name, copy, shape)
            }
        };
        copies.insert(id, copy);
        copy
    }
}
