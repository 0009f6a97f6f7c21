//! The products of a model's layers as data: their tensors, and in what they are computed; what is as the checkpoint has it.

use super::parts::{Matrix, Product};
use super::spec::{EncoderSpec, Layer};
use crate::ops::Levels;

impl Layer {
    fn products(&self) -> impl Iterator<Item = &Product> {
        let inner = self.mixture.is_none().then_some([&self.feed_forward_in, &self.feed_forward_out]);
        let first = self.first_feed_forwards.iter().flat_map(|part| [&part.input, &part.output]);
        let around = self.narrow.iter().flat_map(|narrow| {
            let attended = narrow.attended.as_ref().map(|own| &own.product);
            [&narrow.input.product, &narrow.output].into_iter().chain(attended)
        });
        let own = [&self.query_key_value, &self.attention_output].into_iter().chain(inner.into_iter().flatten());
        own.chain(first).chain(around)
    }

    fn products_mut(&mut self) -> impl Iterator<Item = &mut Product> {
        let inner = self.mixture.is_none().then_some([&mut self.feed_forward_in, &mut self.feed_forward_out]);
        let first = self.first_feed_forwards.iter_mut().flat_map(|part| [&mut part.input, &mut part.output]);
        let around = self.narrow.iter_mut().flat_map(|narrow| {
            let attended = narrow.attended.as_mut().map(|own| &mut own.product);
            [&mut narrow.input.product, &mut narrow.output].into_iter().chain(attended)
        });
        let own =
            [&mut self.query_key_value, &mut self.attention_output].into_iter().chain(inner.into_iter().flatten());
        own.chain(first).chain(around)
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

    /// Takes what the checkpoint need not have as it is there.
    pub fn adapt_to(&mut self, exists: impl Fn(&str) -> bool) {
        for rotary in &mut self.rotary {
            rotary.stored.take_if(|name| !exists(name));
        }
        self.find_own_norms(exists);
    }

    /// Gives products the norms of their own that are among the checkpoint's tensors, if one of them has one.
    pub(super) fn find_own_norms(&mut self, exists: impl Fn(&str) -> bool) {
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
