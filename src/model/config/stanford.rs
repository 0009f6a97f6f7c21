//! What Stanford's ColBERT says of texts, where sentence-transformers has settings of a model and of its Transformer.

use std::path::Path;

use serde_json::Value;

use super::SentenceConfig;
use super::expansion::Expansion;
use super::pylate::PREFIXES;
use crate::Result;
use crate::model::stanford::Artifact;

/// Reads its settings; what begins a text is PyLate's setting of it, too.
pub(super) fn read(folder: &Path, config: &mut SentenceConfig) -> Result<()> {
    let Artifact { markers, query_length, document_length, seen, .. } = Artifact::read(folder)?;
    for ((key, task), marker) in PREFIXES.iter().zip(markers) {
        let beginning = format!("{marker} ");
        if let Some((_, prompt)) = config.prompts.iter_mut().find(|(known, _)| known == task) {
            prompt.clone_from(&beginning);
        }
        config.settings.insert((*key).to_owned(), Value::from(beginning.as_str()));
        config.markers.push(beginning);
    }
    config.task_lengths = [None, document_length];
    config.expansion = Some(Expansion { fixed: true, seen, token: None, length: query_length });
    Ok(())
}
