//! RoBERTa (Liu et al. 2019), XLM-RoBERTa and CamemBERT: BERT with positions counted after the padding token.

use std::path::Path;

use serde_json::{Map, Value};

use super::config::{self, BERT_KEYS, MOST_ROWS, count_after_padding, name_rules, segments};
use crate::Result;
use crate::model::fields::Fields;
use crate::model::spec::{EncoderSpec, NameRules};

/// Reads a `model_type` of `"roberta"`, `"xlm-roberta"` or `"camembert"`.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: &Map<String, Value>, path: &Path) -> Result<(EncoderSpec, NameRules)> {
    let spec = config::read(config, path, &BERT_KEYS, |fields, spec| {
        padding(config, fields, spec);
        segments(fields, spec);
    })?;
    Ok((spec, name_rules("roberta.")))
}

/// Reads `pad_token_id`, from which positions are counted; it must be in both tables.
pub(super) fn padding(config: &Map<String, Value>, fields: &mut Fields<'_>, spec: &mut EncoderSpec) {
    if config.get("pad_token_id").is_some_and(Value::is_null) {
        return fields.fault(
            "pad_token_id is null, but positions are counted from it; give the padding token's id (1 in RoBERTa's vocabulary)".into(),
        );
    }
    let pad = fields.optional_size("pad_token_id", 0..=MOST_ROWS).unwrap_or(1);
    let words = spec.words.rows;
    if pad >= words {
        fields.fault(format!("pad_token_id is {pad}, but vocab_size is {words}; give the padding token's id"));
    }
    count_after_padding(fields, spec, pad);
}
