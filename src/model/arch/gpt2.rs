//! GPT-2 (Radford et al. 2019): pre-norm, causal, learned positions, transposed matrices.

use std::path::Path;

use serde_json::{Map, Value};

use super::config::{self, Keys};
use crate::Result;
use crate::model::fields::unsupported;
use crate::model::spec::{EncoderSpec, LayerNames, Matrices, NameRules, NormPlace};

const KEYS: Keys = Keys {
    hidden: "n_embd",
    layers: "n_layer",
    heads: "n_head",
    intermediate: "n_inner",
    expansion: Some(4),
    positions: "n_positions",
    activation: ("activation_function", "gelu_new"),
    norm_eps: Some(("layer_norm_epsilon", 1e-5)),
};

/// Reads a `model_type: "gpt2"` configuration.
///
/// # Errors
/// As [`config::read`]; `Unsupported` for other scalings of the scores.
pub fn read(config: &Map<String, Value>, path: &Path) -> Result<(EncoderSpec, NameRules)> {
    let (mut scaled, mut by_layer) = (true, false);
    let mut spec = config::read(config, path, &KEYS, |fields, _| {
        scaled = fields.flag_or("scale_attn_weights", true);
        by_layer = fields.flag_or("scale_attn_by_inverse_layer_idx", false);
    })?;
    if !scaled || by_layer {
        let key = if by_layer { "scale_attn_by_inverse_layer_idx" } else { "scale_attn_weights" };
        return Err(unsupported(path, format_args!("{key} {by_layer}"), format!("only {} is known", !by_layer)));
    }
    let name = |part: &str| format!("h.{{}}.{part}");
    let names = LayerNames {
        query_key_value: vec![name("attn.c_attn")],
        attention_output: name("attn.c_proj"),
        attention_norm: name("ln_1"),
        feed_forward_in: name("mlp.c_fc"),
        feed_forward_out: name("mlp.c_proj"),
        feed_forward_norm: name("ln_2"),
    };
    spec.words.name = "wte.weight".into();
    spec.positions.table.name = "wpe.weight".into();
    let spec = EncoderSpec {
        embedding_norm: None,
        norm_place: NormPlace::Pre,
        causal: true,
        final_norm: Some("ln_f".into()),
        matrices: Matrices::ByOperand,
        names,
        ..spec
    };
    // Heads of other classes, and the masks in older files.
    let heads = ["lm_head.*", "score.*", "classifier.*", "qa_outputs.*", "multiple_choice_head.*"];
    let ignored = heads.iter().chain(&["*.attn.bias", "*.attn.masked_bias"]);
    let rules = NameRules {
        prefixes: vec!["transformer.".into()],
        ignored: ignored.map(|name| (*name).to_owned()).collect(),
        ..NameRules::default()
    };
    Ok((spec, rules))
}
