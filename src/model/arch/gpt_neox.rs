//! GPT-NeoX (Black et al. 2022): pre-norm, causal, both parts of a layer on the same operand, rotary positions in a part
//! of each head's columns.

use super::config::{self, BERT_KEYS, ConfigFile, Keys, Read};
use super::rope;
use crate::model::spec::{Layer, NameRules, Norms, Order, Product};

const KEYS: Keys = Keys { norm_eps: Some(("layer_norm_eps", 1e-5)), ..BERT_KEYS };

/// Reads a `model_type: "gpt_neox"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let spec = config::read(config, &KEYS, |fields, spec| {
        // The columns that turn are a share of `head_dim`, if the configuration has it; a head's own are the usual ones.
        let columns = fields.optional_size("head_dim", 1..=spec.head_dim).unwrap_or(spec.head_dim);
        let turned = (columns as f64 * rope::share(fields, ("rotary_pct", 0.25))) as usize;
        spec.rotary = vec![rope::read(fields, turned, ("rotary_emb_base", 10_000.0))];
        spec.positions = config::longest(spec);
        spec.words.name = "embed_in.weight".into();
        spec.embedding_norm = None;
        spec.causal = config::causal(fields);
        spec.parallel = fields.flag_or("use_parallel_residual", true);
        spec.final_norm = Some("final_layer_norm".into());
        let bias = fields.flag_or("attention_bias", true);
        spec.layers = (0..spec.layers.len()).map(|number| layer(number, bias)).collect();
    })?;
    // The masks in older files.
    let ignored = vec!["*.attention.bias".into()];
    Ok((spec, NameRules { prefixes: vec!["gpt_neox.".into()], ignored, ..NameRules::default() }))
}

fn layer(number: usize, attention_bias: bool) -> Layer {
    let name = |part: &str| format!("layers.{number}.{part}");
    let product = |part: &str, bias| Product { bias, ..Product::plain([name(part)]) };
    Layer {
        query_key_value: Product { order: Order::ByHead, ..product("attention.query_key_value", attention_bias) },
        rotary: Some(0),
        attention_output: product("attention.dense", attention_bias),
        attention_norms: Norms::before(name("input_layernorm")),
        feed_forward_in: product("mlp.dense_h_to_4h", true),
        feed_forward_out: product("mlp.dense_4h_to_h", true),
        feed_forward_norms: Norms::before(name("post_attention_layernorm")),
        ..config::layer(number)
    }
}
