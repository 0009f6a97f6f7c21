//! LFM2 (Amini et al. 2025): LLaMA with norms of the heads, most of whose layers have a short gated convolution in place of
//! attention.

use super::config::{ConfigFile, Keys, MOST_COLUMNS, Read};
use super::{llama, rope};
use crate::model::convolution::ShortConvolution;
use crate::model::fields::Fields;
use crate::model::spec::{Layer, Norms, Product};

/// `block_ff_dim` counts before `intermediate_size`, which may be missing then.
const KEYS: Keys = Keys { norm_eps: Some(("norm_eps", 1e-5)), expansion: Some(1), ..llama::KEYS };
/// `layer_types`.
const KINDS: [&str; 2] = ["conv", "full_attention"];

/// Reads a `model_type: "lfm2"` configuration.
///
/// # Errors
/// As [`llama::read_as`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let (spec, mut rules) = llama::read_as(config, &KEYS, |fields, spec| {
        spec.intermediate = intermediate(fields);
        spec.final_norm = Some("embedding_norm".into());
        spec.rotary = vec![rope::read(fields, spec.head_dim, ("rope_theta", 1_000_000.0))];
        let taps = fields.optional_size("conv_L_cache", 1..=MOST_COLUMNS).unwrap_or(3);
        let bias = fields.flag_or("conv_bias", false);
        for (number, convolves) in convolving(fields, spec.layers.len()).into_iter().enumerate() {
            let name = |part: &str| format!("layers.{number}.{part}");
            let product = |names: &[&str]| Product {
                bias: convolves && bias,
                ..Product::plain(names.iter().map(|part| name(part)))
            };
            let layer = Layer {
                attention_norms: Norms::before(name("operator_norm")),
                feed_forward_in: Product::plain([name("feed_forward.w3"), name("feed_forward.w1")]),
                feed_forward_out: Product::plain([name("feed_forward.w2")]),
                feed_forward_norms: Norms::before(name("ffn_norm")),
                ..spec.layers[number].clone()
            };
            spec.layers[number] = match convolves {
                true => Layer {
                    query_key_value: product(&["conv.in_proj.b", "conv.in_proj.c", "conv.in_proj.v"]),
                    short_convolution: Some(ShortConvolution { name: name("conv.conv"), taps, bias }),
                    attention_output: product(&["conv.out_proj"]),
                    ..layer
                },
                false => Layer {
                    head_norms: Some(["q", "k"].map(|part| name(&format!("self_attn.{part}_layernorm")))),
                    attention_output: product(&["self_attn.out_proj"]),
                    ..layer
                },
            };
        }
    })?;
    let part = |end: &str| ["b", "c", "v"].map(|part| format!("conv.in_proj.{part}.{end}")).into();
    rules.stacked = ["weight", "bias"].map(|end| (format!("conv.in_proj.{end}"), part(end))).into();
    Ok((spec, rules))
}

/// Columns between the products of the feed-forward part: with `block_auto_adjust_ff_dim` two thirds of those stated, times a
/// factor, up to the next multiple.
fn intermediate(fields: &mut Fields<'_>) -> usize {
    let stated = fields.optional_size("block_ff_dim", 1..=MOST_COLUMNS);
    let stated = stated.unwrap_or_else(|| fields.size(KEYS.intermediate, 1..=MOST_COLUMNS));
    let factor = fields.number_or("block_ffn_dim_multiplier", 1.0, 0.0..=1e3);
    let multiple = fields.optional_size("block_multiple_of", 1..=MOST_COLUMNS).unwrap_or(256);
    let kept = 2 * stated / 3;
    match fields.flag_or("block_auto_adjust_ff_dim", true) {
        false => stated,
        true if fields.is_null("block_ffn_dim_multiplier") => kept,
        true => ((factor * kept as f64) as usize).next_multiple_of(multiple),
    }
}

/// For each layer whether it has a convolution: `layer_types`, or those that `full_attn_idxs` does not have, of which a
/// configuration without either has none.
fn convolving(fields: &mut Fields<'_>, layers: usize) -> Vec<bool> {
    let Some(kinds) = fields.texts("layer_types") else {
        let attending = fields.numbers("full_attn_idxs");
        let convolves = |number: usize| attending.as_ref().is_some_and(|listed| !listed.contains(&(number as f64)));
        return (0..layers).map(convolves).collect();
    };
    if kinds.len() != layers || kinds.iter().any(|kind| !KINDS.contains(kind)) {
        fields.fault(format!("layer_types is {kinds:?}, expected {layers} of {KINDS:?}"));
        return vec![false; layers];
    }
    kinds.iter().map(|kind| *kind == KINDS[0]).collect()
}
