//! Gemma 3 (2025), whose encoder is EmbeddingGemma: Gemma 2 with norms of each head and with rotary positions of their
//! own in the layers within a window.

use super::config::{ConfigFile, MOST_LAYERS, Read};
use super::{gemma2, llama, qwen3, rope};

/// Reads a `model_type: "gemma3_text"` configuration.
///
/// # Errors
/// As [`llama::read_as`].
pub fn read(config: ConfigFile<'_>) -> Read {
    llama::read_as(config, &gemma2::KEYS, |fields, spec| {
        gemma2::parts(fields, spec);
        qwen3::head_norms(fields, spec, 256);
        spec.own_norms = true;
        let mut window = rope::window(fields, spec);
        if fields.flag_or("use_bidirectional_attention", false) {
            // The window is split between both sides; the mask that `is_causal` false gives reaches one token further.
            window = window.map(|window| if spec.causal { window.div_ceil(2) } else { window / 2 + 1 });
            spec.causal = false;
        }
        let every = fields.optional_size("sliding_window_pattern", 1..=MOST_LAYERS).unwrap_or(6);
        let sliding = gemma2::windows(fields, spec, window, every);
        let (global, local) = (("rope_theta", 1e6), ("rope_local_base_freq", 1e4));
        let global = rope::of_kind(fields, "full_attention", spec.head_dim, global);
        spec.rotary = vec![global, rope::of_layers(fields, "sliding_attention", spec.head_dim, local)];
        for (layer, sliding) in spec.layers.iter_mut().zip(sliding) {
            layer.rotary = Some(sliding.into());
        }
    })
}
