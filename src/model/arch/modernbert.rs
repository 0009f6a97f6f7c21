//! ModernBERT (Warner et al. 2024): pre-norm, gated, rotary positions, global attention in every few layers.

use super::config::{self, BERT_KEYS, ConfigFile, Keys, MOST_ROWS, Read};
use super::rope;
use crate::model::spec::{EncoderSpec, Layer, NameRules, NormKind, Norms, Order, Product};

const KEYS: Keys = Keys { activation: ("hidden_activation", "gelu"), norm_eps: Some(("norm_eps", 1e-5)), ..BERT_KEYS };

/// Reads a `model_type: "modernbert"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let (mut window, mut rotary, mut local) = (0, Vec::new(), Vec::new());
    let (mut norm_bias, mut attention_bias, mut mlp_bias) = (false, false, false);
    let mut spec = config::read(config, &KEYS, |fields, spec| {
        window = fields.optional_size("local_attention", 2..=MOST_ROWS).unwrap_or(128) / 2;
        // Half of the former, and counts before it.
        window = fields.optional_size("sliding_window", 1..=MOST_ROWS).unwrap_or(window);
        fields.expect_size("head_dim", spec.head_dim);
        let every = fields.optional_size("global_attn_every_n_layers", 1..=MOST_ROWS).unwrap_or(3);
        local = rope::sliding(fields, spec.layers.len(), |layer| layer % every != 0);
        rotary =
            [("full_attention", "global_rope_theta", 160_000.0), ("sliding_attention", "local_rope_theta", 10_000.0)]
                .map(|(kind, key, base)| rope::of_kind(fields, kind, spec.head_dim, (key, base)))
                .into();
        [norm_bias, attention_bias, mlp_bias] =
            ["norm_bias", "attention_bias", "mlp_bias"].map(|key| fields.flag_or(key, false));
    })?;
    spec.words.name = "embeddings.tok_embeddings.weight".into();
    let spec = EncoderSpec {
        positions: config::longest(&spec),
        rotary,
        norm: NormKind::Layer { bias: norm_bias },
        gated: true,
        embedding_norm: Some("embeddings.norm".into()),
        final_norm: Some("final_norm".into()),
        ..spec
    };
    let spec = spec.with_layers(|number| {
        let name = |part: &str| format!("layers.{number}.{part}");
        let product = |part: &str, bias| Product { bias, ..Product::plain([name(part)]) };
        Layer {
            query_key_value: product("attn.Wqkv", attention_bias),
            rotary: Some(local[number].into()),
            window: if local[number] { window as u32 } else { 0 },
            attention_output: product("attn.Wo", attention_bias),
            // The embeddings' norm is that of the first layer.
            attention_norms: Norms { before: (number > 0).then(|| name("attn_norm")), ..Norms::default() },
            feed_forward_in: Product { order: Order::GateFirst, ..product("mlp.Wi", mlp_bias) },
            feed_forward_out: product("mlp.Wo", mlp_bias),
            feed_forward_norms: Norms::before(name("mlp_norm")),
            ..config::layer(number)
        }
    });
    Ok((spec, NameRules { prefixes: vec!["model.".into()], ..NameRules::default() }))
}
