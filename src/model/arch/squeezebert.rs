//! SqueezeBERT (Iandola et al. 2020): BERT whose products are of groups of columns, which are read as matrices with zeros
//! between the groups.

use super::config::{self, BERT_KEYS, ConfigFile, Keys, MOST_COLUMNS, Read, name_rules, segments};
use crate::model::spec::{Layer, Norms, Order, Product};

const KEYS: Keys = Keys { norm_eps: None, ..BERT_KEYS };

/// Reads a `model_type: "squeezebert"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let spec = config::read(config, &KEYS, |fields, spec| {
        segments(fields, spec);
        if fields.get("embedding_size").is_some() {
            fields.expect_size("embedding_size", spec.hidden);
        }
        let (hidden, wide) = (spec.hidden, spec.intermediate);
        let mut groups = |key: &str, usual: usize, sizes: [usize; 2]| {
            let groups = fields.optional_size(key, 1..=MOST_COLUMNS).unwrap_or(usual);
            if let Some(size) = sizes.iter().find(|size| !size.is_multiple_of(groups)) {
                fields.fault(format!("{key} is {groups}, which does not divide {size} columns"));
            }
            groups
        };
        let [q, k, v] = ["q_groups", "k_groups", "v_groups"].map(|key| groups(key, 4, [hidden; 2]));
        let attention = groups("post_attention_groups", 1, [hidden; 2]);
        let [inner, outer] = ["intermediate_groups", "output_groups"].map(|key| groups(key, 4, [hidden, wide]));
        if q != k || q != v {
            fields.fault(format!("q_groups is {q}, k_groups {k} and v_groups {v}; only equal ones are known"));
        }
        for (number, layer) in spec.layers.iter_mut().enumerate() {
            let name = |part: &str| format!("encoder.layers.{number}.{part}");
            let product = |groups, parts: &[&str]| {
                let names = parts.iter().map(|part| name(part));
                Product { order: Order::Grouped(groups), ..Product::biased(names) }
            };
            *layer = Layer {
                query_key_value: product(q, &["attention.query", "attention.key", "attention.value"]),
                attention_output: product(attention, &["post_attention.conv1d"]),
                attention_norms: Norms::sum(name("post_attention.layernorm")),
                feed_forward_in: product(inner, &["intermediate.conv1d"]),
                feed_forward_out: product(outer, &["output.conv1d"]),
                feed_forward_norms: Norms::sum(name("output.layernorm")),
                ..Layer::default()
            };
        }
    })?;
    Ok((spec, name_rules("transformer.")))
}
