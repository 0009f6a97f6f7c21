//! CrossEncoder: scores of pairs of texts.

use std::path::Path;

use super::{Bare, Chosen, Class, Setting, USUAL};
use crate::Result;
use crate::model::fields::unsupported;
use crate::model::heads::{Feature, Head, LogitScore};
use crate::model::task_head::Task;

pub(super) static CLASS: Class = Class {
    name: "CrossEncoder",
    result: Feature::Scores,
    tasks: &[None, Some(Task::Scores), Some(Task::NextWord)],
    bare,
    check,
    // The reference, too, reads a checkpoint of another class as a bare one with a head.
    reads_others: true,
    prompts: &[],
    settings: &[("activation_fn", Setting::Text), ("keep_in_fp32_modules", Setting::Texts)],
    in_float32: Some("keep_in_fp32_modules"),
    ..USUAL
};

/// The head of the checkpoint; of one for the next word the logits of two words, unless the caller names others.
fn bare(folder: &Bare<'_>) -> Result<Chosen> {
    if folder.classes().next().is_some_and(|class| class.ends_with("ForCausalLM")) {
        return Ok((Some(Task::NextWord), vec![Head::LogitScore(LogitScore::named(&["yes", "no"]))]));
    }
    Ok((Some(Task::Scores), Vec::new()))
}

fn check(path: &Path, task: Option<Task>, heads: &[Head]) -> Result<()> {
    let scores = |head: &Head| matches!(head, Head::Dense { gives: Feature::Scores, .. } | Head::LogitScore(_));
    match task == Some(Task::Scores) || heads.iter().any(scores) {
        true => Ok(()),
        false => Err(unsupported(path, "no module gives scores", "a pair needs them")),
    }
}
