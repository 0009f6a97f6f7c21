//! ELECTRA (Clark et al. 2020): BERT with embeddings of a separate width, projected to the encoder's.

use super::config::{self, BERT_KEYS, ConfigFile, MOST_COLUMNS, Read, name_rules, segments};

/// `embedding_size` if missing in the configuration.
const EMBEDDING: usize = 128;

/// Reads a `model_type: "electra"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let spec = config::read(config, &BERT_KEYS, |fields, spec| {
        spec.embedding = fields.optional_size("embedding_size", 1..=MOST_COLUMNS).unwrap_or(EMBEDDING);
        spec.embedding_projection = (spec.embedding != spec.hidden).then(|| "embeddings_project".to_owned());
        segments(fields, spec);
    })?;
    Ok((spec, name_rules("electra.")))
}
