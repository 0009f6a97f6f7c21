//! Mixtures of experts of LLaMA's relatives: a feed-forward part for each expert, with tensors of its own.

use super::config::MOST_COLUMNS;
use crate::model::fields::Fields;
use crate::model::mixture::{Mixture, NUMBER};
use crate::model::spec::{Layer, Product};

/// The numbers of experts and of those of a row, and how a family calls its tensors.
pub(super) struct Experts {
    pub experts: usize,
    pub top_k: usize,
    /// Columns between the two products of an expert.
    pub intermediate: usize,
    /// Whether the weights of a row add up to one.
    pub normalized: bool,
    /// The module in a layer that holds router and experts.
    pub module: &'static str,
    /// What is gated, the gate, and the second product.
    pub products: [&'static str; 3],
}

impl Experts {
    /// The numbers under these keys, with their usual values.
    pub(super) fn numbers(
        fields: &mut Fields<'_>,
        [(all, experts), (own, top_k)]: [(&str, usize); 2],
    ) -> (usize, usize) {
        let experts = fields.optional_size(all, 1..=MOST_COLUMNS).unwrap_or(experts);
        let top_k = fields.optional_size(own, 1..=MOST_COLUMNS).unwrap_or(top_k);
        if top_k > experts {
            fields.fault(format!("{own} is {top_k}, but {all} is {experts}"));
        }
        (experts, top_k)
    }

    /// The layer of this number with a mixture.
    pub(super) fn in_layer(&self, number: usize, layer: Layer) -> Layer {
        let name = |part: &str| format!("layers.{number}.{}.{part}", self.module);
        let [up, gate, down] = self.products.map(|part| name(&format!("experts.{NUMBER}.{part}")));
        let &Experts { experts, top_k, intermediate, normalized, .. } = self;
        let router = Product::plain([name("gate")]);
        Layer {
            feed_forward_in: Product::plain([up, gate]),
            feed_forward_out: Product::plain([down]),
            mixture: Some(Mixture { experts, top_k, intermediate, normalized, router, cell: None, bias: None }),
            ..layer
        }
    }
}
