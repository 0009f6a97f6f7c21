//! RoBERTa (Liu et al. 2019), XLM-RoBERTa and CamemBERT: BERT with positions counted after the padding token.

use std::path::Path;

use serde_json::{Map, Value};

use super::config::{BERT_KEYS, Common, MOST_ROWS, layer_names, name_rules, segments};
use crate::Result;
use crate::model::fields::Fields;
use crate::model::spec::{EncoderSpec, NameRules};

/// Reads a `model_type` of `"roberta"`, `"xlm-roberta"` or `"camembert"`.
///
/// # Errors
/// As [`Common::read`].
pub fn read(config: &Map<String, Value>, path: &Path) -> Result<(EncoderSpec, NameRules)> {
    let (common, (pad, token_types)) = Common::read(config, path, &BERT_KEYS, |fields, common| {
        let pad = padding(config, fields, common);
        (pad, segments(fields))
    })?;
    let spec = EncoderSpec { token_types, ..common.spec_after_padding(layer_names(), pad) };
    Ok((spec, name_rules("roberta.", &["lm_head.*"])))
}

/// `pad_token_id`, from which positions are counted; it must be in both tables.
fn padding(config: &Map<String, Value>, fields: &mut Fields<'_>, common: &Common) -> u32 {
    if config.get("pad_token_id").is_some_and(Value::is_null) {
        fields.fault(
            "pad_token_id is null, but positions are counted from it; give the padding token's id (1 in RoBERTa's vocabulary)".into(),
        );
        return 1;
    }
    let pad = fields.optional_size("pad_token_id", 0..=MOST_ROWS).unwrap_or(1);
    if pad >= common.vocabulary {
        fields.fault(format!(
            "pad_token_id is {pad}, but vocab_size is {}; give the padding token's id",
            common.vocabulary
        ));
    }
    common.check_padding(fields, pad);
    pad as u32
}
