//! Norms of every kind.

use super::Builder;
use crate::Result;
use crate::graph::ValueId;
use crate::model::spec::NormKind;
use crate::ops::{LayerNorm, RmsNorm, Shape};
use crate::tensor::{Part, Recipe};

impl Builder<'_> {
    /// The encoder's kind of norm.
    pub(super) fn norm(&mut self, node: &str, name: &str, x: ValueId) -> Result<ValueId> {
        self.norm_as(self.spec.norm, self.spec.norm_eps, node, name, x)
    }

    pub(super) fn norm_as(&mut self, kind: NormKind, eps: f32, node: &str, name: &str, x: ValueId) -> Result<ValueId> {
        let columns = Shape::fixed(&[self.graph.value(x).shape.columns()]);
        let mut part = Part::from(format!("{name}.weight"));
        if kind == NormKind::RmsPlusOne {
            part.recipe.push(Recipe::PlusOne);
        }
        let weight = self.graph.weight(vec![part], columns.clone());
        match kind {
            NormKind::Rms | NormKind::RmsPlusOne => self.graph.node(node, RmsNorm { eps }, &[x, weight]),
            NormKind::Layer { bias: false } => self.graph.node(node, LayerNorm { eps }, &[x, weight]),
            NormKind::Layer { bias: true } => {
                let bias = self.graph.weight(vec![format!("{name}.bias").into()], columns);
                self.graph.node(node, LayerNorm { eps }, &[x, weight, bias])
            }
        }
    }
}
