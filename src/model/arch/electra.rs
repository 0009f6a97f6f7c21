//! ELECTRA (Clark et al. 2020): BERT with embeddings of a separate width, projected to the encoder's.

use std::path::Path;

use serde_json::{Map, Value};

use super::config::{BERT_KEYS, Common, MOST_COLUMNS, layer_names, name_rules, segments};
use crate::Result;
use crate::model::spec::{EncoderSpec, NameRules};

/// `embedding_size` if missing in the configuration.
const EMBEDDING: usize = 128;

/// Reads a `model_type: "electra"` configuration.
///
/// # Errors
/// As [`Common::read`].
pub fn read(config: &Map<String, Value>, path: &Path) -> Result<(EncoderSpec, NameRules)> {
    let (common, (embedding, token_types)) = Common::read(config, path, &BERT_KEYS, |fields, _| {
        (fields.optional_size("embedding_size", 1..=MOST_COLUMNS).unwrap_or(EMBEDDING), segments(fields))
    })?;
    let embedding_projection = (embedding != common.hidden).then(|| "embeddings_project".to_owned());
    let spec = EncoderSpec { embedding, embedding_projection, token_types, ..common.spec(layer_names()) };
    let heads = ["discriminator_predictions.*", "generator_predictions.*", "generator_lm_head.*", "sequence_summary.*"];
    Ok((spec, name_rules("electra.", &heads)))
}
