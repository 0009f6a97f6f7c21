//! Which token vectors of a text are scored.

use std::collections::HashSet;

use crate::model::heads::{Head, Modules, MultiVectorMask};
use crate::text::tokenizer::Tokenizer;

/// A MultiVectorMask, with the ids of its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mask {
    skipped: HashSet<u32>,
    tasks: Vec<String>,
    kept: HashSet<u32>,
}

impl Mask {
    /// Those of a model. Words that are not one token are left out, with a warning.
    pub fn all(modules: &Modules, tokenizer: &Tokenizer) -> Vec<Self> {
        let mut masks = Vec::new();
        for head in &modules.heads {
            let Head::MultiVectorMask(MultiVectorMask { skipped, tasks, kept }) = head else { continue };
            let (known, unknown): (Vec<_>, Vec<_>) = skipped.iter().partition(|word| tokenizer.id(word).is_some());
            if !unknown.is_empty() {
                log::warn!(
                    target: "grilly",
                    "skiplist_words {unknown:?} are not tokens of this tokenizer: they are left out, as in sentence-transformers"
                );
            }
            let skipped = known.into_iter().filter_map(|word| tokenizer.id(word)).collect();
            masks.push(Mask { skipped, tasks: tasks.clone(), kept: kept.iter().copied().collect() });
        }
        masks
    }

    /// Whether the vector of a token is scored in a text of a task; without one a text is a document.
    pub fn scores(&self, task: Option<&str>, id: u32) -> bool {
        let named = task.filter(|task| !task.is_empty()).unwrap_or("document");
        let skipped = self.tasks.iter().any(|task| task == named) && self.skipped.contains(&id);
        let left_out = task != Some("query") && !self.kept.is_empty() && !self.kept.contains(&id);
        !skipped && !left_out
    }
}
