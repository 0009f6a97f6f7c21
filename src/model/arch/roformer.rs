//! RoFormer (Su et al. 2021): BERT with rotary positions of neighbouring columns in place of a table, and embeddings that may
//! be of a separate width.

use super::config::{self, BERT_KEYS, ConfigFile, MOST_COLUMNS, Read, longest, name_rules, segments};
use super::rotary_bert::columns;
use crate::model::rotary::Rotary;
use crate::model::spec::Order;

/// Reads a `model_type: "roformer"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let spec = config::read(config, &BERT_KEYS, |fields, spec| {
        segments(fields, spec);
        columns(fields, spec);
        spec.embedding = fields.optional_size("embedding_size", 1..=MOST_COLUMNS).unwrap_or(spec.hidden);
        spec.embedding_projection = (spec.embedding != spec.hidden).then(|| "embeddings_project".to_owned());
        spec.positions = longest(spec);
        spec.rotary = vec![Rotary {
            stored: Some("encoder.embed_positions.weight".into()),
            values: fields.flag_or("rotary_value", false),
            ..Rotary::sinusoids(spec.head_dim)
        }];
        for layer in &mut spec.layers {
            layer.rotary = Some(0);
            layer.query_key_value.order = Order::Neighbours;
            layer.attention_output.order = Order::OfNeighbours;
        }
    })?;
    Ok((spec, name_rules("roformer.")))
}
