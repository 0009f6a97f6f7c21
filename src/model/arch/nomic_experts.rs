//! The mixtures of experts of NomicBERT v2 (Nussbaum and Duderstadt 2025), by the keys of its own code on the hub.

use super::config::MOST_COLUMNS;
use crate::model::fields::Fields;
use crate::model::mixture::Mixture;
use crate::model::spec::{Layer, Order, Product};

/// Which layers are mixtures, and of what.
pub(super) struct Mixtures {
    /// The second layer of each so many is one.
    every: usize,
    experts: usize,
    top_k: usize,
}

impl Mixtures {
    /// Reads the keys; `None` for a model without mixtures.
    pub(super) fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let [every, experts, top_k] = ["moe_every_n_layers", "num_experts", "moe_top_k"]
            .map(|key| fields.optional_size(key, 0..=MOST_COLUMNS).unwrap_or(0));
        if every == 0 && experts == 0 {
            return None;
        }
        if every == 0 || !(1..=experts).contains(&top_k) {
            fields.fault(format!(
                "num_experts is {experts}, moe_top_k {top_k} and moe_every_n_layers {every}; expected moe_top_k from 1 \
                 to num_experts, and moe_every_n_layers from 1"
            ));
        }
        Some(Mixtures { every, experts, top_k })
    }

    /// A layer, with a mixture of so many columns where it has one.
    pub(super) fn layer(&self, number: usize, intermediate: usize, layer: Layer) -> Layer {
        if number % self.every != 1 {
            return layer;
        }
        let name = |part: &str| format!("layers.{number}.mlp.{part}");
        let router = Product::plain([name("router.layer")]);
        let (experts, top_k, bias) = (self.experts, self.top_k, Some(name("experts.bias")));
        Layer {
            feed_forward_in: Product::plain([name("experts.w1")]),
            feed_forward_out: Product { order: Order::ByOperand, ..Product::plain([name("experts.w2")]) },
            mixture: Some(Mixture { experts, top_k, intermediate, normalized: false, router, cell: None, bias }),
            ..layer
        }
    }

    /// Endings of names to rewrite: the experts' matrices are stored without one.
    pub(super) fn endings() -> [(String, String); 2] {
        ["w1", "w2"].map(|name| (format!("experts.mlp.{name}"), format!("experts.{name}.weight")))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::Result;
    use crate::model::registry::read_spec;
    use crate::model::spec::{EncoderSpec, NameRules};
    use crate::ops::ActivationKind;

    fn reading(changes: Value) -> Result<(EncoderSpec, NameRules)> {
        let mut config = json!({"n_embd": 48, "n_layer": 5, "n_head": 4, "n_positions": 66, "vocab_size": 100,
            "n_inner": 200, "activation_function": "gelu", "num_experts": 6, "moe_top_k": 2, "moe_every_n_layers": 3,
            "moe_normalize_expert_weights": false, "num_shared_experts": 0, "ffn_div": 1, "moe_impl": "megablocks"});
        config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        read_spec("nomic_bert", config.as_object().unwrap(), Path::new("config.json"))
    }

    #[test]
    fn every_second_layer_of_a_period_is_a_mixture() {
        let (spec, rules) = reading(json!({})).unwrap();
        assert_eq!((spec.gated, spec.intermediate, spec.activation), (false, 200, ActivationKind::GeluErf));
        let mixtures: Vec<bool> = spec.layers.iter().map(|layer| layer.mixture.is_some()).collect();
        assert_eq!(mixtures, [false, true, false, false, true]);
        let (dense, layer) = (&spec.layers[0], &spec.layers[4]);
        assert_eq!(dense.feed_forward_in, Product::biased(["layers.0.mlp.up_proj"]));
        assert!(!layer.feed_forward_in.bias && layer.feed_forward_out.order == Order::ByOperand);
        let mixture = layer.mixture.as_ref().unwrap();
        assert_eq!((mixture.experts, mixture.top_k, mixture.normalized), (6, 2, false));
        for (stored, uniform) in [
            ("mlp.experts.mlp.w2", format!("{}.weight", layer.feed_forward_out.names[0])),
            ("mlp.router.layer.weight", format!("{}.weight", mixture.router.names[0])),
            ("mlp.experts.bias", mixture.bias.clone().unwrap()),
        ] {
            assert_eq!(rules.uniform(&format!("encoder.layers.4.{stored}")), uniform);
        }
        assert_eq!(rules.uniform("encoder.layers.0.mlp.fc1.bias"), "layers.0.mlp.up_proj.bias");
        let none = json!({"num_experts": 0, "moe_every_n_layers": 0, "moe_top_k": 1});
        assert!(reading(none).unwrap().0.layers.iter().all(|layer| layer.mixture.is_none()));
    }

    #[test]
    fn what_the_hubs_code_does_not_have_is_refused_by_name() {
        for (key, value) in [
            ("moe_top_k", json!(7)),
            ("moe_top_k", Value::Null),
            ("num_experts", json!(0)),
            ("num_experts", json!("6")),
            ("moe_every_n_layers", json!(0)),
            ("num_shared_experts", json!(1)),
            ("expert_choice_router", json!(true)),
            ("moe_normalize_expert_weights", json!(true)),
            ("ffn_div", json!(2)),
        ] {
            let said = reading(json!({key: value})).unwrap_err().to_string();
            assert!(said.contains(key), "{key} {value}: {said}");
        }
        let said = reading(json!({"activation_function": "swiglu"})).unwrap_err().to_string();
        assert!(said.contains("num_experts 6: experts are known with activation_function \"gelu\""), "{said}");
    }
}
