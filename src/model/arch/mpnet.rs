//! MPNet (Song et al. 2020): RoBERTa without segments, with biases by distance shared by all layers.

use std::path::Path;

use serde_json::{Map, Value};

use super::config::{BERT_KEYS, Common, MOST_ROWS, layer_names, name_rules};
use crate::Result;
use crate::model::relative_biases::RelativeBiases;
use crate::model::spec::{EncoderSpec, LayerNames, NameRules, Table};

/// The reference counts positions from this id, regardless of `pad_token_id`.
const PAD: u32 = 1;
/// The reference uses this number of buckets, regardless of the rows of the table.
const BUCKETS: usize = 32;
const MAX_DISTANCE: usize = 128;

/// Reads a `model_type: "mpnet"` configuration.
///
/// # Errors
/// As [`Common::read`].
pub fn read(config: &Map<String, Value>, path: &Path) -> Result<(EncoderSpec, NameRules)> {
    let (common, rows) = Common::read(config, path, &BERT_KEYS, |fields, common| {
        common.check_padding(fields, PAD as usize);
        fields.optional_size("relative_attention_num_buckets", BUCKETS..=MOST_ROWS).unwrap_or(BUCKETS)
    })?;
    let name = |part: &str| format!("encoder.layer.{{}}.attention.{part}");
    let names = LayerNames {
        query_key_value: ["attn.q", "attn.k", "attn.v"].map(name).into(),
        attention_output: name("attn.o"),
        attention_norm: name("LayerNorm"),
        ..layer_names()
    };
    let biases = RelativeBiases {
        table: Table { name: "encoder.relative_attention_bias.weight".into(), rows },
        buckets: BUCKETS,
        max_distance: MAX_DISTANCE,
    };
    let spec = EncoderSpec { relative_biases: Some(biases), ..common.spec_after_padding(names, PAD) };
    Ok((spec, name_rules("mpnet.", &["lm_head.*"])))
}
