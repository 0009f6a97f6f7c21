//! Fewer vectors for each text, after the graph: the module HierarchicalTokenPooling.

use serde_json::Value;

use super::Head;
use crate::Result;
use crate::model::fields::Fields;

/// Most vectors for each that stays, far above any text's.
const MOST: f64 = 1e9;

/// Clusters of a text's vectors, each replaced by its mean.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenPooling {
    /// Vectors for each that stays.
    pub factor: f64,
    /// First vectors that stay as they are.
    pub protected: usize,
    /// Whether the vectors are divided by their norms again.
    pub normalizes: bool,
    /// The tasks of whose texts vectors are pooled; texts without a task count as documents.
    pub tasks: Vec<String>,
}

/// Reads the module's own configuration.
pub(super) fn read(fields: &mut Fields<'_>) -> Result<Head> {
    let factor = fields.number_or("pool_factor", 1.0, 1.0..=MOST);
    let protected = fields.optional_size("num_protected_tokens", 0..=MOST as usize).unwrap_or(1);
    // Files from before the setting mean no.
    let normalizes = fields.flag_or("normalize_embeddings", false);
    let tasks = match fields.get("tasks") {
        Some(Value::String(task)) => vec![task.clone()],
        _ => fields
            .texts("tasks")
            .map_or_else(|| vec!["document".to_owned()], |tasks| tasks.into_iter().map(str::to_owned).collect()),
    };
    Ok(Head::TokenPooling(TokenPooling { factor, protected, normalizes, tasks }))
}
