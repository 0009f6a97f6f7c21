//! What a folder says of its class: the class that saved it, and the task of its Transformer.

use std::path::Path;

use serde_json::Value;

use super::{CLASSES, Class};
use crate::Result;
use crate::model::fields::{Fields, shown, unsupported};
use crate::model::files::{MODEL_SETTINGS, read_fields, transformer_settings};
use crate::model::heads::{DENSE_OF_PYLATE, Feature};
use crate::model::routes::Listing;
use crate::model::task_head::Task;

/// The class that saved a folder with `modules.json`; older versions had only the first, and PyLate its own, which it did not
/// always name.
pub(super) fn saved_class(folder: &Path) -> Result<String> {
    let path = folder.join(MODEL_SETTINGS);
    let stated = match path.exists() {
        true => read_fields(&path, |fields| Ok(fields.text("model_type").map(str::to_owned)))?,
        false => None,
    };
    let of_pylate = || matches!(Listing::read(folder), Ok(Some(listing)) if listing.lists(DENSE_OF_PYLATE));
    let unnamed = || if of_pylate() { CLASSES.iter().find_map(|class| class.older) } else { None };
    let found = stated.or_else(|| unnamed().map(str::to_owned));
    Ok(found.unwrap_or_else(|| CLASSES[0].name.to_owned()))
}

/// A task, a Transformer's `transformer_task`, and the names of the value that it gives and of the model's output.
type TaskRow = (Option<Task>, &'static str, &'static str, &'static str);

const TASKS: [TaskRow; 4] = [
    (None, "feature-extraction", "token_embeddings", "last_hidden_state"),
    (Some(Task::Scores), "sequence-classification", "scores", "logits"),
    (Some(Task::Words), "fill-mask", "token_embeddings", "logits"),
    (Some(Task::NextWord), "text-generation", "causal_logits", "logits"),
];

/// The names of a Transformer's task.
pub fn task_row(task: Option<Task>) -> &'static TaskRow {
    &TASKS[task.map_or(0, |task| 1 + task as usize)]
}

/// The task in a Transformer's settings, or else `usual`.
pub(super) fn read_task(transformer: &Path, class: &Class, usual: Option<Task>) -> Result<Option<Task>> {
    let Some((path, values)) = transformer_settings(transformer)? else { return Ok(usual) };
    let mut fields = Fields::new(&values, &path);
    let known: Vec<&TaskRow> = class.tasks.iter().map(|task| task_row(*task)).collect();
    let task = match fields.text("transformer_task") {
        None => known.iter().find(|row| row.0 == usual),
        Some(name) => known.iter().find(|row| row.1 == name),
    };
    let other = |key: &str, value: &str, known: String| Err(unsupported(&path, format_args!("{key} {value:?}"), known));
    let Some((task, _, gives, output)) = task else {
        let name = fields.text("transformer_task").unwrap_or_default();
        let names: Vec<String> = known.iter().map(|row| format!("{:?}", row.1)).collect();
        let reason = class.refused.iter().find(|(refused, _)| *refused == name).map(|(_, reason)| (*reason).to_owned());
        return other(
            "transformer_task",
            name,
            reason.unwrap_or_else(|| format!("only {} is known", names.join(" or "))),
        );
    };
    if let Some(value) = fields.text("module_output_name").filter(|value| value != gives) {
        return other("module_output_name", value, format!("only {gives:?} is known"));
    }
    if fields.is_set("query_expansion") && class.result != Feature::Tokens {
        return other("query_expansion", "set", "only a MultiVectorEncoder expands queries: remove it".into());
    }
    if let Some(modalities) = fields.object("modality_config") {
        if fields.get("module_output_name").is_none() {
            fields.fault("module_output_name is missing, which modality_config needs".into());
        }
        // A text is a message where there are messages.
        let Some((name, method)) = ["message", "text"].iter().find_map(|name| Some((name, modalities.get(*name)?)))
        else {
            let known: Vec<&String> = modalities.keys().collect();
            return Err(unsupported(&path, format!("modality_config {known:?}"), "texts need \"text\" or \"message\""));
        };
        for (key, known) in [("method", "forward"), ("method_output_name", output)] {
            let value = method.get(key).unwrap_or(&Value::Null);
            if value != known && *value != serde_json::json!([known]) {
                let what = format!("modality_config: {name}: {key} {}", shown(value));
                return Err(unsupported(&path, what, format!("only {known:?} is known")));
            }
        }
    }
    fields.done().map(|()| *task)
}
