//! What PyLate writes into config_sentence_transformers.json, where sentence-transformers has settings of modules.

use super::SentenceConfig;
use super::expansion::Expansion;
use crate::model::fields::Fields;

/// Keys that tell a folder of PyLate's.
const KEYS: [&str; 9] = [
    "query_length",
    "document_length",
    "query_expansion",
    "do_query_expansion",
    "attend_to_expansion_tokens",
    "attend_to_mask_tokens",
    "query_prefix",
    "document_prefix",
    "skiplist_words",
];
/// The keys of what begins a text, and the tasks of such texts.
pub(super) const PREFIXES: [(&str, &str); 2] = [("query_prefix", "query"), ("document_prefix", "document")];
/// Tokens of an expanded query where no number is stated.
const QUERY: usize = 32;

/// Reads them; what the Transformer's settings say counts before.
pub(super) fn read(fields: &mut Fields<'_>, config: &mut SentenceConfig) {
    if !KEYS.iter().any(|key| fields.is_null(key) || fields.get(key).is_some()) {
        return;
    }
    for (key, name) in PREFIXES {
        let Some(prefix) = fields.text(key) else { continue };
        if let Some((_, prompt)) = config.prompts.iter_mut().find(|(known, _)| known == name) {
            // Both begin a text, and some files have the one as the beginning of the other.
            *prompt = format!("{prefix}{}", prompt.strip_prefix(prefix).unwrap_or(prompt));
        }
        config.markers.push(prefix.to_owned());
    }
    config.task_lengths =
        ["query_length", "document_length"].map(|key| fields.optional_size(key, 1..=super::LONGEST_TEXT));
    if fields.is_null("query_expansion") || fields.get("query_expansion").is_some() {
        config.expansion = fields.within("query_expansion", Expansion::read);
    } else if fields.flag_or("do_query_expansion", true) {
        let seen = fields.flag_or("attend_to_mask_tokens", false);
        let seen = fields.flag_or("attend_to_expansion_tokens", seen);
        let length = config.task_lengths[0].take().unwrap_or(QUERY);
        config.expansion = Some(Expansion { fixed: true, seen, token: None, length });
    }
}
