//! ERNIE 1.0 to 3.0 (Sun et al. 2019 to 2021): BERT, of later versions with a table of tasks, the first of which every
//! token has.

use super::config::{self, BERT_KEYS, ConfigFile, MOST_ROWS, Read, name_rules, segments};
use crate::model::spec::Table;

const TASKS: &str = "embeddings.task_type_embeddings.weight";

/// Reads a `model_type: "ernie"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let mut rules = name_rules("ernie.");
    let spec = config::read(config, &BERT_KEYS, |fields, spec| {
        segments(fields, spec);
        let rows = fields.optional_size("task_type_vocab_size", 1..=MOST_ROWS).unwrap_or(3);
        match fields.flag_or("use_task_id", false) {
            true => spec.task_types = Some(Table { name: TASKS.into(), rows }),
            false => rules.ignored.push(TASKS.into()),
        }
    })?;
    Ok((spec, rules))
}
