//! Convolutions over the tokens of a text, in place of a layer's attention and beside it.

use super::{Builder, Input};
use crate::Result;
use crate::graph::ValueId;
use crate::model::convolution::{ShortConvolution, SpanConvolution};
use crate::model::spec::Product;
use crate::ops::{Binary, BinaryKind, Dim, EmbeddingSum, Shape, Softmax, TokenConvolution};
use crate::tensor::Part;

impl Builder<'_> {
    /// `c convolution(b v)` of the three results of `product`.
    pub(super) fn short_convolution(
        &mut self,
        node: &impl Fn(&str) -> String,
        of: &ShortConvolution,
        product: &Product,
        x: ValueId,
    ) -> Result<ValueId> {
        let x = if self.spec.unseen_expansion { self.zeroed_expansion(node, x)? } else { x };
        let mut part =
            |label: &str, place: usize| self.linear(&node(label), &product.part(place), x, &[self.spec.hidden]);
        let [b, c, v] = [part("gate before", 0)?, part("gate after", 1)?, part("values", 2)?];
        let gated = self.graph.node(&node("gated values"), Binary::from(BinaryKind::Multiply), &[b, v])?;
        let name = node("convolution");
        let mut y = self.convolved(&name, &format!("{}.weight", of.name), gated, of.taps, of.taps - 1)?;
        if of.bias {
            y = self.with_bias(&name, Part::from(format!("{}.bias", of.name)), y)?;
        }
        self.graph.node(&node("gated convolution"), Binary::from(BinaryKind::Multiply), &[y, c])
    }

    /// `x` with zeros in the rows of the tokens that are not seen, as the reference has what it masks.
    fn zeroed_expansion(&mut self, node: &impl Fn(&str) -> String, x: ValueId) -> Result<ValueId> {
        let (columns, dtype) = (self.graph.value(x).shape.columns(), self.graph.value(x).dtype);
        let numbers = (0..2 * columns).map(|place| if place < columns { 0.0 } else { 1.0 });
        let part = Part::computed("unseen and seen", &[2, columns], numbers);
        let table = self.graph.weight_as(dtype, vec![part], Shape::fixed(&[2, columns]));
        let seen = self.input(Input::Seen);
        let factors = self.graph.node(&node("seen"), EmbeddingSum {}, &[seen, table])?;
        self.graph.node(&node("zeroed expansion"), Binary::from(BinaryKind::Multiply), &[x, factors])
    }

    /// The convolution beside attention, projected to the hidden state's columns, given the layer's queries.
    pub(super) fn span_convolution(
        &mut self,
        node: &impl Fn(&str) -> String,
        of: &SpanConvolution,
        [x, queries]: [ValueId; 2],
    ) -> Result<ValueId> {
        let (heads, columns) = (self.spec.heads, self.spec.heads * self.spec.head_dim);
        let before = (of.taps - 1) / 2;
        let near = self.convolved(&node("span"), &of.depthwise, x, of.taps, before)?;
        let keys = self.linear(&node("span keys"), &of.keys, near, &[columns])?;
        let keys = self.with_bias(&node("span keys"), Part::new(&of.keys_bias, &[columns, 1], vec![]), keys)?;
        let met = self.graph.node(&node("span queries"), Binary::from(BinaryKind::Multiply), &[keys, queries])?;
        let weights = self.linear(&node("span weights"), &of.weights, met, &[heads * of.taps])?;
        let rows = self.graph.value(weights).shape.rows();
        let shape = Shape(vec![rows, Dim::Fixed(heads), Dim::Fixed(of.taps)]);
        let weights = self.graph.view(&node("span weights"), weights, shape);
        let weights = self.graph.node(&node("span softmax"), Softmax::default(), &[weights])?;
        let values = self.linear(&node("span values"), &of.values, x, &[columns])?;
        let offsets = self.input(Input::Offsets);
        let mixed = self.graph.node(&node("span mixed"), TokenConvolution { before }, &[values, weights, offsets])?;
        self.linear(&node("span output"), &of.output, mixed, &[self.spec.hidden])
    }

    /// A convolution of each column, with weights `[columns, 1, taps]`.
    fn convolved(&mut self, node: &str, weight: &str, x: ValueId, taps: usize, before: usize) -> Result<ValueId> {
        let columns = self.graph.value(x).shape.columns();
        let part = Part::new(weight, &[columns, 1, taps], vec![]);
        let weight = self.graph.weight(vec![part], Shape::fixed(&[1, columns, taps]));
        let offsets = self.input(Input::Offsets);
        self.graph.node(node, TokenConvolution { before }, &[x, weight, offsets])
    }

    fn with_bias(&mut self, node: &str, bias: Part, x: ValueId) -> Result<ValueId> {
        let (columns, dtype) = (self.graph.value(x).shape.columns(), self.graph.value(x).dtype);
        let bias = self.graph.weight_as(dtype, vec![bias], Shape::fixed(&[columns]));
        self.graph.node(&format!("{node} bias"), Binary::from(BinaryKind::Add), &[x, bias])
    }
}
