//! MPNet (Song et al. 2020): RoBERTa without segments, with biases by distance shared by all layers.

use super::config::{self, BERT_KEYS, ConfigFile, MOST_ROWS, Read, count_after_padding, name_rules};
use crate::model::relative_biases::RelativeBiases;
use crate::model::spec::{Layer, Norms, Product, Table};

/// The reference counts positions from this id, regardless of `pad_token_id`.
const PAD: usize = 1;
/// The reference uses this number of buckets, regardless of the rows of the table.
const BUCKETS: usize = 32;
const MAX_DISTANCE: usize = 128;

/// Reads a `model_type: "mpnet"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let spec = config::read(config, &BERT_KEYS, |fields, spec| {
        count_after_padding(fields, spec, PAD);
        let rows = fields.optional_size("relative_attention_num_buckets", BUCKETS..=MOST_ROWS).unwrap_or(BUCKETS);
        let table = Table { name: "encoder.relative_attention_bias.weight".into(), rows };
        let (buckets, max_distance) = (BUCKETS, MAX_DISTANCE);
        spec.relative_biases = Some(RelativeBiases { table, buckets, max_distance, causal: false });
    })?;
    let spec = spec.with_layers(|number| {
        let name = |part: &str| format!("encoder.layer.{number}.attention.{part}");
        Layer {
            query_key_value: Product::biased(["attn.q", "attn.k", "attn.v"].map(name)),
            attention_output: Product::biased([name("attn.o")]),
            attention_norms: Norms::sum(name("LayerNorm")),
            ..config::layer(number)
        }
    });
    Ok((spec, name_rules("mpnet.")))
}
