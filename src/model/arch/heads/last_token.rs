//! The heads of decoders, which read the vector of a text's last token.

use super::labels;
use crate::Result;
use crate::model::fields::{Fields, unsupported};
use crate::model::spec::EncoderSpec;
use crate::model::task_head::{HeadStep, Padding, Task, TaskHead};
use crate::ops::PoolMode;

/// The padding token.
const PADDING: &str = "pad_token_id";
/// The bound that logits approach smoothly.
const SOFT_CAP: &str = "final_logit_softcapping";

/// Scores of the last token that is not padding: a product without a bias. `usual` is the padding token of a configuration
/// that states none.
pub(super) fn scores_of_last(fields: &mut Fields<'_>, spec: &EncoderSpec, usual: Option<u32>) -> Result<TaskHead> {
    if !spec.causal {
        let reason = "its last token is scored without those of padding behind it, which the others would see";
        return Err(unsupported(fields.path(), "is_causal false with a head for scores", reason));
    }
    let usual = usual.filter(|_| !fields.is_null(PADDING));
    let padding = match (fields.get(PADDING), usual) {
        (None, None) => Padding::Unstated,
        (None, Some(usual)) => Padding::Cut(usual),
        (Some(value), _) => match value.as_i64().and_then(|id| u32::try_from(id).ok()) {
            Some(id) => Padding::Cut(id),
            // A number that is no token's is that of none.
            None if value.is_i64() => Padding::Kept,
            None => {
                fields.fault(format!("{PADDING} is {value}, expected the id of a token"));
                Padding::Unstated
            }
        },
    };
    let score = HeadStep::Linear { name: "score".into(), bias: false, columns: labels(fields) };
    let steps = vec![HeadStep::Pool(PoolMode::LastToken), score];
    Ok(TaskHead { padding, ..TaskHead::of(Task::Scores, steps) })
}

/// Logits of the word after a text. The matrix is the table of the embeddings where the configuration ties them, as `tied`
/// where it does not say; `cap` is the usual bound of the logits of a family that has one.
pub(super) fn next_word(fields: &mut Fields<'_>, spec: &EncoderSpec, tied: bool, cap: Option<f64>) -> Result<TaskHead> {
    let product = HeadStep::Linear { name: "lm_head".into(), bias: false, columns: spec.words.rows };
    let mut steps = vec![HeadStep::Pool(PoolMode::LastToken), product];
    if let Some(usual) = cap.filter(|_| !fields.is_null(SOFT_CAP)) {
        steps.push(HeadStep::SoftCap(fields.number_or(SOFT_CAP, usual, 1e-3..=1e6) as f32));
    }
    let tied = fields.flag_or("tie_word_embeddings", tied).then(|| ["lm_head.weight".into(), spec.words.name.clone()]);
    Ok(TaskHead { tied: tied.into_iter().collect(), ..TaskHead::of(Task::NextWord, steps) })
}
