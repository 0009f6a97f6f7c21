//! Mixtral (Jiang et al. 2024): Mistral whose feed-forward parts are mixtures of experts.

use super::config::{ConfigFile, Keys, Read};
use super::experts::Experts;
use super::{llama, rope};

const KEYS: Keys = Keys { norm_eps: Some(("rms_norm_eps", 1e-5)), ..llama::KEYS };

/// Reads a `model_type: "mixtral"` configuration.
///
/// # Errors
/// As [`llama::read_as`].
pub fn read(config: ConfigFile<'_>) -> Read {
    llama::read_as(config, &KEYS, |fields, spec| {
        let (experts, top_k) = Experts::numbers(fields, [("num_local_experts", 8), ("num_experts_per_tok", 2)]);
        let window = rope::stated_window(fields, spec);
        spec.rotary = vec![rope::read(fields, spec.head_dim, ("rope_theta", 1e6))];
        let intermediate = spec.intermediate;
        let (module, products) = ("block_sparse_moe", ["w3", "w1", "w2"]);
        let of_layer = Experts { experts, top_k, intermediate, normalized: true, module, products };
        for (number, layer) in spec.layers.iter_mut().enumerate() {
            layer.window = window;
            *layer = of_layer.in_layer(number, layer.clone());
        }
    })
}
