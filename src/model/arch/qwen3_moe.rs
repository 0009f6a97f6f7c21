//! Qwen3 with mixtures of experts (Yang et al. 2025) in place of the feed-forward parts of some layers.

use super::config::{ConfigFile, MOST_COLUMNS, MOST_LAYERS, Read};
use super::experts::Experts;
use super::{llama, qwen3, rope};

/// Reads a `model_type: "qwen3_moe"` configuration.
///
/// # Errors
/// As [`llama::read_as`].
pub fn read(config: ConfigFile<'_>) -> Read {
    llama::read_as(config, &llama::KEYS, |fields, spec| {
        qwen3::head_norms(fields, spec, spec.head_dim);
        llama::attention_biases(fields, spec);
        let window = if fields.flag_or("use_sliding_window", false) { rope::window(fields, spec) } else { None };
        let (experts, top_k) = Experts::numbers(fields, [("num_local_experts", 128), ("num_experts_per_tok", 8)]);
        let intermediate = fields.optional_size("moe_intermediate_size", 1..=MOST_COLUMNS).unwrap_or(768);
        let normalized = fields.flag_or("norm_topk_prob", false);
        let every = fields.optional_size("decoder_sparse_step", 1..=MOST_LAYERS).unwrap_or(1);
        let dense = fields.numbers("mlp_only_layers").unwrap_or_default();
        let (module, products) = ("mlp", ["up_proj", "gate_proj", "down_proj"]);
        let of_layer = Experts { experts, top_k, intermediate, normalized, module, products };
        for (number, layer) in spec.layers.iter_mut().enumerate() {
            layer.window = window.unwrap_or(0);
            if (number + 1).is_multiple_of(every) && !dense.contains(&(number as f64)) {
                *layer = of_layer.in_layer(number, layer.clone());
            }
        }
    })
}
