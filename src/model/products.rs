//! The products of a model's layers as data: their tensors, and in what they are computed.

use super::spec::{EncoderSpec, Layer};
use crate::ops::Levels;
use crate::quant::format::Applied;

/// Storage order of a product's matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// `[columns of the result, columns of x]`, as in torch's `Linear`.
    #[default]
    ByResult,
    /// `[columns of x, columns of the result]`, as in GPT-2's `Conv1D`.
    ByOperand,
    /// By result, queries, keys and values of the first head, then of the second, as in GPT-NeoX.
    ByHead,
    /// By result, the gate's rows before the rows that it gates, as in ModernBERT.
    GateFirst,
}

/// A product of a layer: one tensor, or several stacked in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Product {
    /// Names without `.weight` and `.bias`.
    pub names: Vec<String>,
    /// Whether it has biases.
    pub bias: bool,
    /// Storage order of the matrix.
    pub order: Order,
    /// Norms by the root mean square of what is multiplied, one for each tensor; empty for none.
    pub norms: Vec<String>,
    /// What the matrix consists of.
    pub matrix: Matrix,
}

/// What the matrix of a product consists of. Rows that meet integers are integers, too: of 8 bits, with a scale for each
/// token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Matrix {
    /// The stored numbers.
    #[default]
    Numbers,
    /// Integers of few bits to which the stored numbers are rounded: ternary ones with one scale (W1.58A8), or signs with
    /// one for each row.
    Rounded(Levels),
    /// Ternary integers with one scale, to which the numbers are rounded in every step of training; gradients go straight
    /// through the rounding.
    Trained,
    /// Ternary integers, stored as [`Format::HuggingFace`](crate::quant::Format), and their scale `NAME.weight_scale`.
    Packed(Applied),
}

impl Product {
    /// A product with biases, stored as torch's `Linear`.
    pub fn biased<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Product { names, bias: true, order: Order::ByResult, norms: Vec::new(), matrix: Matrix::Numbers }
    }

    /// A product without biases, stored as torch's `Linear`.
    pub fn plain<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Product { bias: false, ..Product::biased(names) }
    }

    /// The product with one of the tensors alone.
    pub fn part(&self, place: usize) -> Self {
        let norms = self.norms.get(place).cloned().into_iter().collect();
        Product { names: vec![self.names[place].clone()], norms, ..self.clone() }
    }

    /// Whether its tensors meet different numbers, and so are products of their own.
    pub fn is_apart(&self) -> bool {
        self.norms.len() > 1
    }
}

impl Layer {
    fn products(&self) -> impl Iterator<Item = &Product> {
        let inner = self.mixture.is_none().then_some([&self.feed_forward_in, &self.feed_forward_out]);
        [&self.query_key_value, &self.attention_output].into_iter().chain(inner.into_iter().flatten())
    }

    fn products_mut(&mut self) -> impl Iterator<Item = &mut Product> {
        let inner = self.mixture.is_none().then_some([&mut self.feed_forward_in, &mut self.feed_forward_out]);
        [&mut self.query_key_value, &mut self.attention_output].into_iter().chain(inner.into_iter().flatten())
    }
}

impl EncoderSpec {
    /// The products of the layers, but for those of mixtures of experts and of decoders' second attention.
    pub fn products(&self) -> impl Iterator<Item = &Product> {
        self.layers.iter().flat_map(Layer::products)
    }

    /// The same, to be changed.
    pub fn products_mut(&mut self) -> impl Iterator<Item = &mut Product> {
        self.layers.iter_mut().flat_map(Layer::products_mut)
    }

    /// Gives products the norms of their own that are among the checkpoint's tensors, if one of them has one.
    pub fn find_own_norms(&mut self, exists: impl Fn(&str) -> bool) {
        let norm = |name: &String| format!("{name}.norm");
        let has_one = |product: &Product| product.names.iter().any(|name| exists(&format!("{}.weight", norm(name))));
        if self.own_norms && self.products().any(has_one) {
            for product in self.products_mut() {
                product.norms = product.names.iter().map(norm).collect();
                product.matrix = Matrix::Rounded(Levels::Ternary);
            }
        }
    }

    /// Rounds the matrices of the layers' products to integers of few bits, but those that are such already; the number of
    /// those that are rounded.
    pub fn round_products(&mut self, levels: Levels) -> usize {
        let numbers = self.products_mut().filter(|product| product.matrix == Matrix::Numbers);
        numbers.map(|product| product.matrix = Matrix::Rounded(levels)).count()
    }
}
