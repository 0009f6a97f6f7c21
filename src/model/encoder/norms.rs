//! Norms of every kind.

use super::Builder;
use crate::Result;
use crate::dtype::DType;
use crate::graph::ValueId;
use crate::model::spec::NormKind;
use crate::ops::{Binary, BinaryKind, LayerNorm, RmsNorm, Shape};
use crate::tensor::{Part, Recipe};

impl Builder<'_> {
    /// The encoder's kind of norm.
    pub(super) fn norm(&mut self, node: &str, name: &str, x: ValueId) -> Result<ValueId> {
        let usual = self.spec.usual_eps.iter().any(|known| known == name);
        self.norm_as(self.spec.norm, if usual { 1e-5 } else { self.spec.norm_eps }, node, name, x)
    }

    pub(super) fn norm_as(&mut self, kind: NormKind, eps: f32, node: &str, name: &str, x: ValueId) -> Result<ValueId> {
        let columns = Shape::fixed(&[self.graph.value(x).shape.columns()]);
        // What multiplies and adds has the type of what it meets.
        let dtype = if kind == NormKind::Affine { self.graph.value(x).dtype } else { DType::F32 };
        let mut part = Part::from(format!("{name}.weight"));
        if kind == NormKind::RmsPlusOne {
            part.recipe.push(Recipe::PlusOne);
        }
        let weight = self.graph.weight_as(dtype, vec![part], columns.clone());
        match kind {
            NormKind::Rms | NormKind::RmsPlusOne => self.graph.node(node, RmsNorm { eps }, &[x, weight]),
            NormKind::Layer { bias: false } => self.graph.node(node, LayerNorm { eps }, &[x, weight]),
            NormKind::Layer { bias: true } | NormKind::Affine => {
                let bias = self.graph.weight_as(dtype, vec![format!("{name}.bias").into()], columns);
                if kind != NormKind::Affine {
                    return self.graph.node(node, LayerNorm { eps }, &[x, weight, bias]);
                }
                let y = self.graph.node(&format!("{node} weight"), Binary::from(BinaryKind::Multiply), &[x, weight])?;
                self.graph.node(&format!("{node} bias"), Binary::from(BinaryKind::Add), &[y, bias])
            }
        }
    }
}
