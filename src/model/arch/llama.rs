//! LLaMA (Touvron et al. 2023), Mistral (Jiang et al. 2023) and Qwen2 (Yang et al. 2024): norms by the root mean square
//! before the parts, a gated feed-forward part, rotary positions, groups of heads with the same keys, causal.

use super::config::{self, BERT_KEYS, ConfigFile, Keys, MOST_COLUMNS, MOST_LAYERS, Read};
use super::rope;
use crate::model::fields::Fields;
use crate::model::spec::{EncoderSpec, Layer, NameRules, NormKind, Norms, Product};

/// LLaMA's keys.
pub(super) const KEYS: Keys =
    Keys { activation: ("hidden_act", "silu"), norm_eps: Some(("rms_norm_eps", 1e-6)), ..BERT_KEYS };

/// Stored names that LLaMA and its relatives have.
pub(super) const MARKS: &[&str] = &["layers.0.self_attn.q_proj.", "model.layers.0.self_attn.q_proj."];

/// Reads a `model_type: "mistral"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn mistral(config: ConfigFile<'_>) -> Read {
    read_as(config, &KEYS, |fields, spec| {
        let window = rope::window(fields, spec).unwrap_or(0);
        // With `layer_types` the reference reads it as Ministral, some layers of which have no window.
        let sliding = rope::sliding(fields, spec.layers.len(), |_| true);
        rope::set_windows(spec, &sliding, window);
    })
}

/// Reads a `model_type: "qwen2"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn qwen2(config: ConfigFile<'_>) -> Read {
    read_as(config, &KEYS, |fields, spec| {
        spec.layers.iter_mut().for_each(|layer| layer.query_key_value.bias = true);
        last_windows(fields, spec);
    })
}

/// Reads the configuration of LLaMA or a relative; `own` changes what differs.
///
/// # Errors
/// As [`config::read`].
pub(super) fn read_as<'a>(
    config: ConfigFile<'a>,
    keys: &Keys,
    own: impl FnOnce(&mut Fields<'a>, &mut EncoderSpec),
) -> Read {
    let spec = config::read(config, keys, |fields, spec| {
        spec.kv_heads = fields.optional_size("num_key_value_heads", 1..=MOST_COLUMNS).unwrap_or(spec.heads);
        if !spec.heads.is_multiple_of(spec.kv_heads) {
            let (heads, groups) = (spec.heads, spec.kv_heads);
            fields.fault(format!("{} {heads} is not a multiple of num_key_value_heads {groups}", keys.heads));
        }
        spec.head_dim = fields.optional_size("head_dim", 1..=MOST_COLUMNS).unwrap_or(spec.head_dim);
        spec.positions = config::longest(spec);
        spec.words.name = "embed_tokens.weight".into();
        spec.embedding_norm = None;
        spec.norm = NormKind::Rms;
        spec.gated = true;
        spec.causal = config::causal(fields);
        spec.final_norm = Some("norm".into());
        spec.layers = (0..spec.layers.len()).map(layer).collect();
        own(fields, spec);
        if spec.rotary.is_empty() {
            spec.rotary = vec![rope::read(fields, spec.head_dim, ("rope_theta", 10_000.0))];
        }
    })?;
    Ok((spec, NameRules { prefixes: vec!["model.".into()], ..NameRules::default() }))
}

fn layer(number: usize) -> Layer {
    let name = |part: &str| format!("layers.{number}.{part}");
    Layer {
        query_key_value: Product::plain(["q", "k", "v"].map(|part| name(&format!("self_attn.{part}_proj")))),
        rotary: Some(0),
        attention_output: Product::plain([name("self_attn.o_proj")]),
        attention_norms: Norms::before(name("input_layernorm")),
        feed_forward_in: Product::plain([name("mlp.up_proj"), name("mlp.gate_proj")]),
        feed_forward_out: Product::plain([name("mlp.down_proj")]),
        feed_forward_norms: Norms::before(name("post_attention_layernorm")),
        ..config::layer(number)
    }
}

/// Biases of both parts of a layer, where the configuration has them.
pub(super) fn biases(fields: &mut Fields<'_>, spec: &mut EncoderSpec) {
    attention_biases(fields, spec);
    let bias = fields.flag_or("mlp_bias", false);
    for layer in &mut spec.layers {
        (layer.feed_forward_in.bias, layer.feed_forward_out.bias) = (bias, bias);
    }
}

/// Biases of the attention part, where the configuration has them.
pub(super) fn attention_biases(fields: &mut Fields<'_>, spec: &mut EncoderSpec) {
    let bias = fields.flag_or("attention_bias", false);
    for layer in &mut spec.layers {
        (layer.query_key_value.bias, layer.attention_output.bias) = (bias, bias);
    }
}

/// Qwen's windows: if used at all, of the layers from `max_window_layers` on, unless `layer_types` says otherwise.
pub(super) fn last_windows(fields: &mut Fields<'_>, spec: &mut EncoderSpec) {
    let window = if fields.flag_or("use_sliding_window", false) { rope::window(fields, spec) } else { None };
    let first = fields.optional_size("max_window_layers", 0..=MOST_LAYERS).unwrap_or(28);
    let sliding = rope::sliding(fields, spec.layers.len(), |layer| window.is_some() && layer >= first);
    if window.is_none() && sliding.contains(&true) {
        fields
            .fault("layer_types has \"sliding_attention\", but use_sliding_window or sliding_window is not set".into());
    }
    rope::set_windows(spec, &sliding, window.unwrap_or(0));
}
