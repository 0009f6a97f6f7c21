//! SentenceTransformer: one vector per text.

use std::path::Path;

use serde_json::Value;

use super::{Bare, Chosen, Class, Setting, USUAL};
use crate::Result;
use crate::model::fields::unsupported;
use crate::model::heads::{Feature, First, Head};
use crate::model::task_head::Task;
use crate::ops::PoolMode;

pub(super) static CLASS: Class = Class {
    name: "SentenceTransformer",
    first: &[("StaticEmbedding", First::StaticEmbedding, None)],
    bare,
    check,
    settings: &[("truncate_dim", Setting::Size)],
    ..USUAL
};

/// Pooling of the last token after a causal language model, otherwise of the mean.
fn bare(folder: &Bare<'_>) -> Result<Chosen> {
    let first = folder.config.get("architectures").and_then(|list| list.get(0)).and_then(Value::as_str);
    let causal = !matches!(folder.config.get("is_causal"), Some(Value::Null | Value::Bool(false)))
        && first.is_some_and(|class| class.ends_with("ForCausalLM"));
    let mode = if causal { PoolMode::LastToken } else { PoolMode::Mean };
    Ok((None, vec![Head::Pooling { modes: vec![mode], include_prompt: true }]))
}

fn check(path: &Path, _: Option<Task>, heads: &[Head]) -> Result<()> {
    let gives = |head: &Head| {
        matches!(head, Head::Pooling { .. } | Head::SpladePooling(_) | Head::Dense { gives: Feature::Sentence, .. })
    };
    match heads.iter().any(gives) {
        true => Ok(()),
        false => Err(unsupported(path, "no Pooling module", "a text needs one vector")),
    }
}
