//! GPT-Neo (Black et al. 2021): GPT-2 with separate projections, scores without a factor, and windows in some layers.

use serde_json::Value;

use super::config::{self, BERT_KEYS, ConfigFile, Keys, MOST_LAYERS, MOST_ROWS, Read};
use super::gpt2;
use crate::model::fields::{Fields, shown};
use crate::model::spec::{Layer, NameRules, Norms, Product};

const KEYS: Keys = Keys {
    layers: "num_layers",
    heads: "num_heads",
    expansion: Some(4),
    activation: ("activation_function", "gelu_new"),
    norm_eps: Some(("layer_norm_epsilon", 1e-5)),
    ..BERT_KEYS
};

/// Reads a `model_type: "gpt_neo"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let mut windows = Vec::new();
    let spec = config::read(config, &KEYS, |fields, spec| {
        let size = fields.optional_size("window_size", 1..=MOST_ROWS).unwrap_or(256) as u32;
        // A token sees as many, itself included; a window of one is the token alone, which a distance cannot say.
        if size == 1 {
            fields.fault("window_size is 1, expected at least 2".into());
        }
        gpt2::names(spec);
        (spec.score_scale, spec.causal) = (Some(1.0), true);
        windows = local(fields, spec.layers.len()).into_iter().map(|local| if local { size - 1 } else { 0 }).collect();
    })?;
    let spec = spec.with_layers(|number| {
        let name = |part: &str| format!("h.{number}.{part}");
        Layer {
            query_key_value: Product::plain(["q", "k", "v"].map(|part| name(&format!("attn.attention.{part}_proj")))),
            window: windows[number],
            attention_output: Product::biased([name("attn.attention.out_proj")]),
            attention_norms: Norms::before(name("ln_1")),
            feed_forward_in: Product::biased([name("mlp.c_fc")]),
            feed_forward_out: Product::biased([name("mlp.c_proj")]),
            feed_forward_norms: Norms::before(name("ln_2")),
            ..config::layer(number)
        }
    });
    // The masks in older files.
    let ignored = vec!["*.attention.bias".into()];
    Ok((spec, NameRules { prefixes: vec!["transformer.".into()], ignored, ..NameRules::default() }))
}

/// For each layer whether it has a window, by `attention_types`, lists of kinds, each with a number of repetitions; these
/// written out as `attention_layers` count before them.
fn local(fields: &mut Fields<'_>, layers: usize) -> Vec<bool> {
    let usual = || (0..layers).map(|layer| layer % 2 == 1).collect();
    let kinds = |kinds: &Value| {
        let kind = |kind: &Value| match kind.as_str()? {
            "global" => Some(false),
            "local" => Some(true),
            _ => None,
        };
        kinds.as_array()?.iter().map(kind).collect::<Option<Vec<_>>>()
    };
    if let Some(stated) = fields.get("attention_layers") {
        return kinds(stated).filter(|kinds| kinds.len() == layers).unwrap_or_else(|| {
            let form = format!("expected {layers} of \"global\" and \"local\"");
            fields.fault(format!("attention_layers is {}, {form}", shown(stated)));
            usual()
        });
    }
    let Some(stated) = fields.get("attention_types") else { return usual() };
    let repeated = |item: &Value| {
        let times = usize::try_from(item.get(1)?.as_u64()?).ok().filter(|times| *times <= MOST_LAYERS)?;
        Some(kinds(item.get(0)?)?.repeat(times))
    };
    let kinds = stated.as_array().and_then(|items| items.iter().map(repeated).collect::<Option<Vec<_>>>());
    match kinds.map(|kinds| kinds.concat()).filter(|kinds| kinds.len() == layers) {
        Some(kinds) => kinds,
        None => {
            let form = "expected lists of \"global\" and \"local\", each with a number of repetitions";
            fields.fault(format!("attention_types is {}, {form}, for {layers} layers", shown(stated)));
            usual()
        }
    }
}
