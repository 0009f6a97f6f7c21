//! DeBERTa (He et al. 2020), the first version: queries, keys and values of a head stored together, without biases of the
//! keys; every distance up to the farthest has a vector of its own.

use super::config::{self, BERT_KEYS, ConfigFile, Keys, Read, name_rules};
use super::deberta_v2::{only_sizes, positive, terms_by_distance};
use crate::model::distances::Distances;
use crate::model::spec::{Layer, Order, Product, Table};

const KEYS: Keys = Keys { norm_eps: Some(("layer_norm_eps", 1e-7)), ..BERT_KEYS };

/// Reads a `model_type: "deberta"` configuration.
///
/// # Errors
/// As [`config::read`]; `Unsupported` for embeddings of their own width.
pub fn read(config: ConfigFile<'_>) -> Read {
    let mut rules = name_rules("deberta.");
    let spec = config::read(config, &KEYS, |fields, spec| {
        let texts = spec.positions.longest_text();
        let terms = terms_by_distance(fields, spec, &mut rules);
        if terms.contains(&true) {
            let farthest = positive(fields, "max_relative_positions").unwrap_or(texts);
            let table = Table { name: "encoder.rel_embeddings.weight".into(), rows: 2 * farthest };
            spec.distances = Some(Distances::new(table, None, farthest, texts));
        }
        for (number, layer) in spec.layers.iter_mut().enumerate() {
            let name = |part: &str| format!("encoder.layer.{number}.attention.self.{part}");
            let biases = ["q_bias", "", "v_bias"].map(|part| (!part.is_empty()).then(|| name(part)));
            let joint = Product { bias: true, biases: biases.into(), ..Product::plain([name("in_proj")]) };
            let met = [Product::plain([name("pos_proj")]), Product::biased([name("pos_q_proj")])];
            let [of_queries, of_keys] = met;
            *layer = Layer {
                query_key_value: Product { order: Order::ByHead, ..joint },
                by_distance: [terms[0].then_some(of_queries), terms[1].then_some(of_keys)],
                ..config::layer(number)
            };
        }
    })?;
    only_sizes(config, &spec)?;
    Ok((spec, rules))
}
