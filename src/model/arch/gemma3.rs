//! Gemma 3 (2025), whose encoder is EmbeddingGemma: norms before and after each part, times one more than the stored
//! weight, norms of each head, scaled embeddings, most layers within a window and with rotary positions of their own.

use std::path::Path;

use serde_json::{Map, Value};

use super::config::{Keys, MOST_COLUMNS, MOST_LAYERS};
use super::{llama, qwen3, rope};
use crate::Result;
use crate::model::spec::{EncoderSpec, NameRules, NormKind, Norms};

const KEYS: Keys = Keys { activation: ("hidden_activation", "gelu_pytorch_tanh"), unused: UNUSED, ..llama::KEYS };
/// Of text that the model writes.
const UNUSED: &[&str] = &["cache_implementation", "final_logit_softcapping"];

/// Reads a `model_type: "gemma3_text"` configuration.
///
/// # Errors
/// As [`llama::read_as`].
pub fn read(config: &Map<String, Value>, path: &Path) -> Result<(EncoderSpec, NameRules)> {
    llama::read_as(config, path, &KEYS, |fields, spec| {
        qwen3::head_norms(fields, spec, 256);
        llama::attention_biases(fields, spec);
        spec.norm = NormKind::RmsPlusOne;
        spec.word_scale = (spec.hidden as f64).sqrt() as f32;
        spec.word_scale_rounded = true;
        let squared = fields.number_or("query_pre_attn_scalar", 256.0, 1e-6..=MOST_COLUMNS as f64);
        spec.score_scale = Some(squared.powf(-0.5) as f32);
        let mut window = rope::window(fields, spec);
        if fields.flag_or("use_bidirectional_attention", false) {
            // The window is split between both sides.
            window = window.map(|window| window.div_ceil(2));
            spec.causal = false;
        }
        let every = fields.optional_size("sliding_window_pattern", 1..=MOST_LAYERS).unwrap_or(6);
        let sliding = rope::sliding(fields, spec.layers.len(), |layer| (layer + 1) % every != 0);
        let (global, local) = (("rope_theta", 1e6), ("rope_local_base_freq", 1e4));
        let global = match fields.is_set("rope_scaling") {
            true => rope::read(fields, spec.head_dim, global),
            false => rope::of_layers(fields, "full_attention", spec.head_dim, global),
        };
        spec.rotary = vec![global, rope::of_layers(fields, "sliding_attention", spec.head_dim, local)];
        for (number, layer) in spec.layers.iter_mut().enumerate() {
            let around = |before: &str, after: &str| {
                let name = |norm: &str| Some(format!("layers.{number}.{norm}_layernorm"));
                Norms { before: name(before), after: name(after), sum: None }
            };
            layer.attention_norms = around("input", "post_attention");
            layer.feed_forward_norms = around("pre_feedforward", "post_feedforward");
            layer.rotary = Some(sliding[number].into());
            layer.window = window.filter(|_| sliding[number]).unwrap_or(0);
        }
    })
}
