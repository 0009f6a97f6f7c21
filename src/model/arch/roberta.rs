//! RoBERTa (Liu et al. 2019), XLM-RoBERTa and CamemBERT: BERT with positions counted after the padding token.

use super::config::{self, BERT_KEYS, ConfigFile, MOST_ROWS, Read, count_after_padding, name_rules, segments};
use crate::model::fields::Fields;
use crate::model::spec::EncoderSpec;

/// Reads a `model_type` of `"roberta"`, `"xlm-roberta"` or `"camembert"`.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let spec = config::read(config, &BERT_KEYS, |fields, spec| {
        padding(fields, spec);
        segments(fields, spec);
    })?;
    Ok((spec, name_rules("roberta.")))
}

/// Reads `pad_token_id`, from which positions are counted; it must be in both tables.
pub(super) fn padding(fields: &mut Fields<'_>, spec: &mut EncoderSpec) {
    if fields.is_null("pad_token_id") {
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
