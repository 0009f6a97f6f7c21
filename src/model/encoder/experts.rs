//! A mixture of experts in place of a layer's feed-forward part.

use super::Builder;
use crate::graph::ValueId;
use crate::model::mixture::{LiquidCell, Mixture};
use crate::model::spec::{Layer, Product};
use crate::ops::{Activation, ActivationKind, Binary, BinaryKind, ExpertLinear, Gated, Route, Shape, WeightedSum};
use crate::tensor::{Part, Recipe};
use crate::{Error, Result};

/// A product of rows with the matrices of their experts.
struct Routed<'a> {
    mixture: &'a Mixture,
    product: &'a Product,
    x: ValueId,
    /// Places of the rows by expert, and where those of each expert start.
    places: [ValueId; 2],
    /// Columns of the result, of each tensor of the product.
    columns: &'a [usize],
    activation: ActivationKind,
    scale: f32,
}

impl Builder<'_> {
    pub(super) fn mixture(
        &mut self,
        node: &impl Fn(&str) -> String,
        layer: &Layer,
        mixture: &Mixture,
        x: ValueId,
    ) -> Result<ValueId> {
        let spec = self.spec;
        let read = match &mixture.cell {
            Some(cell) => self.liquid(&|part| node(&format!("router {part}")), cell, x)?,
            None => x,
        };
        let scores = self.linear(&node("router"), &mixture.router, read, &[mixture.experts])?;
        let route = Route { top_k: mixture.top_k, normalized: mixture.normalized };
        let routed = self.graph.apply(&node("route"), route, &[scores])?;
        let (weight, places) = (routed[0], [routed[1], routed[2]]);
        let mut wide = self.routed(
            &node("experts in"),
            &Routed {
                mixture,
                product: &layer.feed_forward_in,
                x,
                places,
                columns: &vec![mixture.intermediate; if spec.gated { 2 } else { 1 }],
                activation: if spec.gated { ActivationKind::Identity } else { spec.activation },
                scale: 1.0,
            },
        )?;
        if spec.gated {
            wide = self.graph.node(&node("experts activation"), Gated(Activation::from(spec.activation)), &[wide])?;
        }
        let out = self.routed(
            &node("experts out"),
            &Routed {
                mixture,
                product: &layer.feed_forward_out,
                x: wide,
                places,
                columns: &[spec.hidden],
                activation: ActivationKind::Identity,
                scale: spec.residual_scale,
            },
        )?;
        let mut operands = vec![out, weight];
        if let Some(name) = &mixture.bias {
            let scale = spec.residual_scale;
            let recipe = (scale != 1.0).then(|| Recipe::scaled(scale)).into_iter().collect();
            let part = Part::new(name, &[spec.hidden], recipe);
            operands.push(self.graph.weight(vec![part], Shape::fixed(&[spec.hidden])));
        }
        self.graph.node(&node("experts"), WeightedSum { bias: mixture.bias.is_some() }, &operands)
    }

    /// The state of a liquid cell after its steps, `[T, units]`. Of each step, numerator and denominator are multiplied by
    /// the number of steps.
    fn liquid(&mut self, node: &impl Fn(&str) -> String, cell: &LiquidCell, x: ValueId) -> Result<ValueId> {
        let (units, steps, dtype) = (cell.units, cell.steps as f32, self.graph.value(x).dtype);
        let mut vector = |part: Part| self.graph.weight_as(dtype, vec![part], Shape::fixed(&[units]));
        let target = vector(Part::new(&cell.target, &[units], vec![]));
        // steps + rate
        let recipe = vec![Recipe::scaled(1.0 / steps), Recipe::PlusOne, Recipe::scaled(steps)];
        let rate = vector(Part::new(&cell.rate, &[units], recipe));
        let times = vector(Part::computed(format!("{} steps", cell.rate), &[units], std::iter::repeat_n(steps, units)));
        let input = self.linear(&node("input"), &cell.input, x, &[units])?;
        let mut state = None;
        for step in 0..cell.steps {
            let node = |part: &str| node(&format!("{part} {step}"));
            let binary = |builder: &mut Self, part: &str, kind, a, b| {
                builder.graph.node(&node(part), Binary::from(kind), &[a, b])
            };
            let read = match state {
                Some(state) => {
                    let recurrent = self.linear(&node("recurrent"), &cell.recurrent, state, &[units])?;
                    binary(self, "sum", BinaryKind::Add, recurrent, input)?
                }
                None => input,
            };
            let f = self.activation(&node("f"), ActivationKind::Sigmoid, read)?;
            let mut above = binary(self, "f target", BinaryKind::Multiply, f, target)?;
            if let Some(state) = state {
                let kept = binary(self, "kept", BinaryKind::Multiply, state, times)?;
                above = binary(self, "above", BinaryKind::Add, kept, above)?;
            }
            let below = binary(self, "below", BinaryKind::Add, f, rate)?;
            state = Some(binary(self, "state", BinaryKind::Divide, above, below)?);
        }
        state.ok_or_else(|| Error::InvalidArgument("a liquid cell has no steps, expected one at least".into()))
    }

    fn routed(&mut self, node: &str, of: &Routed<'_>) -> Result<ValueId> {
        let &Routed { mixture, product, x, places: [order, starts], columns, scale, .. } = of;
        let (experts, total) = (mixture.experts, columns.iter().sum());
        let (input, dtype) = (self.graph.value(x).shape.columns(), self.graph.value(x).dtype);
        let matrices = mixture.parts(product, columns, Some(input), scale);
        let matrices = self.graph.weight_as(dtype, matrices, Shape::fixed(&[experts, total, input]));
        let mut operands = vec![x, matrices, order, starts];
        if product.bias {
            let biases = mixture.parts(product, columns, None, scale);
            operands.push(self.graph.weight(biases, Shape::fixed(&[experts, total])));
        }
        let activation = Some(of.activation).filter(|kind| *kind != ActivationKind::Identity);
        self.graph.node(node, ExpertLinear { bias: product.bias, activation }, &operands)
    }
}
