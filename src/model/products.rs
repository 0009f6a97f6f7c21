//! The products of a model's layers as data: their tensors, and in what they are computed.

use super::parts::{Matrix, Product};
use super::spec::{EncoderSpec, Layer};
use crate::ops::Levels;

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
