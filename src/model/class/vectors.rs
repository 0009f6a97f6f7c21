//! MultiVectorEncoder: a vector for each token of a text.

use std::path::Path;

use super::{Bare, Chosen, Class, Setting, USUAL};
use crate::Result;
use crate::model::fields::unsupported;
use crate::model::heads::{Feature, Head};
use crate::model::stanford;
use crate::model::task_head::Task;

pub(super) static CLASS: Class = Class {
    name: "MultiVectorEncoder",
    result: Feature::Tokens,
    refused: &[("retrieval", "models of images are encoded with sentence-transformers")],
    bare,
    check,
    // PyLate's, in which these modules are not listed.
    older: Some("ColBERT"),
    implied: &["MultiVectorMask", "Normalize"],
    similarities: &["maxsim", "meanmaxsim"],
    settings: &[("query_prefix", Setting::Text), ("document_prefix", Setting::Text)],
    ..USUAL
};

/// The modules of Stanford's ColBERT.
fn bare(folder: &Bare<'_>) -> Result<Chosen> {
    if !folder.classes().any(|class| class == stanford::CLASS) {
        return Err(folder.other(
            "without modules.json it has no projection of the tokens' vectors: train one with sentence-transformers, save the \
             model, and load that",
        ));
    }
    let place = folder.path.parent().unwrap_or(folder.path);
    Ok((None, stanford::modules(place, folder.config)?))
}

fn check(path: &Path, _: Option<Task>, heads: &[Head]) -> Result<()> {
    let of_tokens = |head: &Head| {
        matches!(
            head,
            Head::WeightedLayerPooling { .. }
                | Head::Dense { of: Feature::Tokens, gives: Feature::Tokens, .. }
                | Head::Normalize { of: Feature::Tokens }
                | Head::MultiVectorMask(_)
                | Head::TokenPooling(_)
                | Head::Idle(_)
        )
    };
    let pooled = heads.iter().position(|head| matches!(head, Head::TokenPooling(_)));
    if let Some(after) = pooled.and_then(|place| heads.get(place + 1)) {
        let what = format!("module {} after a HierarchicalTokenPooling", after.shown().0);
        return Err(unsupported(path, what, "that is the last module here: move it to the end of modules.json"));
    }
    match heads.iter().find(|head| !of_tokens(head)) {
        None => Ok(()),
        Some(head) => {
            let what = format!("module {} of a MultiVectorEncoder", head.shown().0);
            let reason =
                "known are MultiVectorMask, and Dense and Normalize with module_input_name \"token_embeddings\"";
            Err(unsupported(path, what, reason))
        }
    }
}
