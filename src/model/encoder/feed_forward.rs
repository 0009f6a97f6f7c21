//! The feed-forward parts of a layer.

use super::Builder;
use crate::Result;
use crate::graph::ValueId;
use crate::model::spec::Layer;
use crate::ops::{Activation, Binary, BinaryKind, Gated};

impl Builder<'_> {
    /// The parts before the last, each added to what it reads.
    pub(super) fn first_feed_forwards(
        &mut self,
        node: &impl Fn(&str) -> String,
        layer: &Layer,
        mut x: ValueId,
    ) -> Result<ValueId> {
        let columns = self.graph.value(x).shape.columns();
        for (number, part) in layer.first_feed_forwards.iter().enumerate() {
            let node = |what: &str| node(&format!("feed-forward {number} {what}"));
            x = self.residual(&node("part"), &part.norms, [x; 2], |builder, x| {
                let wide = builder.linear(&node("in"), &part.input, x, &[builder.spec.intermediate])?;
                let wide = builder.own_activation(&node("activation"), wide)?;
                builder.linear(&node("out"), &part.output, wide, &[columns])
            })?;
        }
        Ok(x)
    }

    /// What the product back to the layer's columns reads.
    pub(super) fn feed_forward_in(
        &mut self,
        node: &impl Fn(&str) -> String,
        layer: &Layer,
        x: ValueId,
    ) -> Result<ValueId> {
        let (spec, name) = (self.spec, node("feed-forward activation"));
        let columns = vec![spec.intermediate; if spec.gated { 2 } else { 1 }];
        let product = &layer.feed_forward_in;
        if spec.gated && (product.is_apart() || spec.activation_squared) {
            let mut half = |part: usize, name: &str| {
                let y = self.linear(&node(name), &product.part(part), x, &columns[..1])?;
                self.as_type(&node(&format!("{name} result")), y, self.stream)
            };
            let (up, gate) = (half(0, "feed-forward up")?, half(1, "feed-forward gate")?);
            let gate = self.own_activation(&name, gate)?;
            return self.graph.node(&node("feed-forward gated"), Binary::from(BinaryKind::Multiply), &[up, gate]);
        }
        let wide = self.linear(&node("feed-forward in"), product, x, &columns)?;
        let wide = self.as_type(&node("feed-forward in result"), wide, self.stream)?;
        match spec.gated {
            true => self.graph.node(&name, Gated(Activation::from(spec.activation)), &[wide]),
            false => self.own_activation(&name, wide),
        }
    }
}
