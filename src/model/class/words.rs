//! SparseEncoder: one weight per word of each text.

use std::path::Path;

use super::{Bare, Chosen, Class, Setting, USUAL};
use crate::Result;
use crate::model::fields::unsupported;
use crate::model::heads::{First, Head, SpladePooling};
use crate::model::task_head::Task;
use crate::ops::PoolMode;

pub(super) static CLASS: Class = Class {
    name: "SparseEncoder",
    tasks: &[None, Some(Task::Words)],
    first: &[("MLMTransformer", First::Transformer, Some(Task::Words))],
    bare,
    check,
    settings: &[("max_active_dims", Setting::Size)],
    ..USUAL
};

/// The head for words of the checkpoint, and SPLADE's pooling.
fn bare(folder: &Bare<'_>) -> Result<Chosen> {
    if !folder.classes().any(|class| class.ends_with("ForMaskedLM")) {
        return Err(folder.other("without modules.json a ...ForMaskedLM is expected there"));
    }
    Ok((Some(Task::Words), vec![Head::SpladePooling(SpladePooling { mode: PoolMode::Max, twice: false })]))
}

fn check(path: &Path, _: Option<Task>, heads: &[Head]) -> Result<()> {
    if matches!(heads, [Head::SpladePooling(_)]) {
        return Ok(());
    }
    let names: Vec<&str> = heads.iter().map(|head| head.shown().0).collect();
    let what = format!("modules {names:?} of a SparseEncoder");
    Err(unsupported(path, what, "SpladePooling alone is known after the Transformer"))
}
