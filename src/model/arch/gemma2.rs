//! Gemma 2 (2024): norms before and after each part, times one more than the stored weight, scaled embeddings, every
//! second layer within a window, scores bounded by a soft cap.

use super::config::{ConfigFile, Keys, MOST_COLUMNS, Read};
use super::{gemma, llama, rope};
use crate::model::fields::Fields;
use crate::model::spec::{EncoderSpec, Norms};

pub(super) const KEYS: Keys = Keys { activation: ("hidden_activation", "gelu_pytorch_tanh"), ..llama::KEYS };

/// Reads a `model_type: "gemma2"` configuration.
///
/// # Errors
/// As [`llama::read_as`].
pub fn read(config: ConfigFile<'_>) -> Read {
    llama::read_as(config, &KEYS, |fields, spec| {
        parts(fields, spec);
        if !fields.is_null("attn_logit_softcapping") {
            spec.score_cap = fields.number_or("attn_logit_softcapping", 50.0, 1e-3..=1e6) as f32;
        }
        let window = rope::window(fields, spec);
        windows(fields, spec, window, 2);
    })
}

/// What Gemma 2 and 3 share: what Gemma has, the factor on scores, the norms.
pub(super) fn parts(fields: &mut Fields<'_>, spec: &mut EncoderSpec) {
    gemma::scaled(fields, spec);
    let squared = fields.number_or("query_pre_attn_scalar", 256.0, 1e-6..=MOST_COLUMNS as f64);
    spec.score_scale = Some(squared.sqrt().recip() as f32);
    for (number, layer) in spec.layers.iter_mut().enumerate() {
        let around = |before: &str, after: &str| {
            let name = |norm: &str| Some(format!("layers.{number}.{norm}_layernorm"));
            Norms { before: name(before), after: name(after), sum: None }
        };
        layer.attention_norms = around("input", "post_attention");
        layer.feed_forward_norms = around("pre_feedforward", "post_feedforward");
    }
}

/// Gives the window to all layers but each `every`-th, unless `layer_types` says otherwise; returns which have it.
pub(super) fn windows(fields: &mut Fields<'_>, spec: &mut EncoderSpec, window: Option<u32>, every: usize) -> Vec<bool> {
    let sliding = rope::sliding(fields, spec.layers.len(), |layer| (layer + 1) % every != 0);
    rope::set_windows(spec, &sliding, window.unwrap_or(0));
    sliding
}
