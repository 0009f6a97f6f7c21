//! Configuration keys shared by BERT and related architectures.

use std::path::Path;

use serde_json::{Map, Value};

use crate::Result;
use crate::model::fields::{Fields, unsupported};
use crate::model::spec::{EncoderSpec, Layer, NameRules, Norms, PositionRows, Positions, Product, Table};
use crate::ops::ActivationKind;

// Far above any existing model, and low enough that no product of sizes overflows.
pub(super) const MOST_COLUMNS: usize = 1 << 20;
pub(super) const MOST_ROWS: usize = 1 << 28;
pub(super) const MOST_LAYERS: usize = 10_000;
/// Positions, for which tables of angles or distances are computed.
const MOST_POSITIONS: usize = 1 << 20;

/// config.json of a model.
#[derive(Clone, Copy)]
pub struct ConfigFile<'a> {
    pub values: &'a Map<String, Value>,
    pub path: &'a Path,
}

/// A configuration as data, with the rules for names of its checkpoints.
pub(super) type Read = Result<(EncoderSpec, NameRules)>;

/// Names of the keys.
pub(super) struct Keys {
    pub hidden: &'static str,
    pub layers: &'static str,
    pub heads: &'static str,
    pub intermediate: &'static str,
    /// `intermediate` as a multiple of `hidden` if missing in the configuration; `None` if it is required.
    pub expansion: Option<usize>,
    /// Empty for a model without a limit.
    pub positions: &'static str,
    /// Key and default value.
    pub activation: (&'static str, &'static str),
    /// Key and default value; `None` where the reference uses 1e-12 regardless of the configuration.
    pub norm_eps: Option<(&'static str, f64)>,
}

/// The keys of BERT.
pub(super) const BERT_KEYS: Keys = Keys {
    hidden: "hidden_size",
    layers: "num_hidden_layers",
    heads: "num_attention_heads",
    intermediate: "intermediate_size",
    expansion: None,
    positions: "max_position_embeddings",
    activation: ("hidden_act", "gelu"),
    norm_eps: Some(("layer_norm_eps", 1e-12)),
};

/// BERT's encoder, of the sizes that the keys and `vocab_size` give, without segment embeddings; `own` reads the keys of
/// the architecture and changes what differs. All faults are reported together.
///
/// # Errors
/// `ModelFormat` naming missing or invalid values; `Unsupported` for an unknown activation.
pub(super) fn read<'a>(
    config: ConfigFile<'a>,
    keys: &Keys,
    own: impl FnOnce(&mut Fields<'a>, &mut EncoderSpec),
) -> Result<EncoderSpec> {
    let mut fields = Fields::new(config.values, config.path);
    let hidden = fields.size(keys.hidden, 1..=MOST_COLUMNS);
    let layers = fields.size(keys.layers, 1..=MOST_LAYERS);
    let heads = fields.size(keys.heads, 1..=MOST_COLUMNS);
    let words = table("word", fields.size("vocab_size", 1..=MOST_ROWS));
    let mut spec = EncoderSpec {
        heads,
        kv_heads: heads,
        head_dim: hidden / heads,
        positions: Positions::Learned {
            table: table(
                "position",
                match keys.positions {
                    "" => MOST_ROWS,
                    key if fields.get(key).is_none() => fields.size(key, 1..=MOST_POSITIONS),
                    key => positions(&mut fields, key).unwrap_or(1),
                },
            ),
            rows: PositionRows::Counted,
        },
        norm_eps: keys.norm_eps.map_or(1e-12, |(key, default)| fields.number_or(key, default, 0.0..=1.0)) as f32,
        intermediate: match keys.expansion {
            None => fields.size(keys.intermediate, 1..=MOST_COLUMNS),
            Some(times) => fields.optional_size(keys.intermediate, 1..=MOST_COLUMNS).unwrap_or(times * hidden),
        },
        embedding_norm: Some("embeddings.LayerNorm".into()),
        causal: fields.flag_or("is_decoder", false),
        layers: (0..layers).map(layer).collect(),
        ..EncoderSpec::of_table(words, hidden)
    };
    let (activation_key, activation_default) = keys.activation;
    let activation_name = fields.text(activation_key).unwrap_or(activation_default);
    own(&mut fields, &mut spec);
    if spec.head_dim == hidden / heads && !hidden.is_multiple_of(heads) {
        fields.fault(format!("{} {hidden} is not a multiple of {} {heads}", keys.hidden, keys.heads));
    }
    fields.done()?;
    let function = if spec.activation_squared { "relu" } else { activation_name };
    spec.activation = ActivationKind::from_config_name(function).ok_or_else(|| {
        let known = "known are gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, quick_gelu, relu, silu, swish, tanh, sigmoid, linear";
        unsupported(config.path, format_args!("{activation_key} {activation_name:?}"), known)
    })?;
    Ok(spec)
}

/// Whether a decoder attends causally, as `is_causal` says. With null the reference attends in both directions, but causally in a
/// batch that has no padding.
pub(super) fn causal(fields: &mut Fields<'_>) -> bool {
    if fields.is_null("is_causal") {
        let reason = "with it the direction of attention depends on the other texts of a batch: state true or false";
        fields.fault(format!("is_causal is null: {reason}"));
    }
    fields.flag_or("is_causal", true)
}

/// The number of positions; a fault for more than any model has, instead of tables of that size.
pub(super) fn positions(fields: &mut Fields<'_>, key: &str) -> Option<usize> {
    let stated = fields.optional_size(key, 1..=MOST_ROWS)?;
    if stated > MOST_POSITIONS {
        let remedy = "set it to the tokens of the longest text to encode";
        fields.fault(format!("{key} is {stated}, at most {MOST_POSITIONS} positions are computed; {remedy}"));
    }
    Some(stated.min(MOST_POSITIONS))
}

/// No positions but those of the layers, for texts as long as the configuration states.
pub(super) fn longest(spec: &EncoderSpec) -> Positions {
    Positions::None { longest: spec.positions.longest_text() }
}

/// Counts positions from the row after the padding token's, which the table must have.
pub(super) fn count_after_padding(fields: &mut Fields<'_>, spec: &mut EncoderSpec, pad: usize) {
    let Positions::Learned { table, rows } = &mut spec.positions else { return };
    *rows = PositionRows::AfterPadding { pad: pad as u32 };
    if table.rows <= pad + 1 {
        fields.fault(format!(
            "max_position_embeddings is {}, but the first token has position {} (one after the padding token {pad}); \
             expected at least {}",
            table.rows,
            pad + 1,
            pad + 2
        ));
    }
}

/// An embedding table with BERT's name.
fn table(name: &str, rows: usize) -> Table {
    Table { name: format!("embeddings.{name}_embeddings.weight"), rows }
}

/// BERT's segment table: two rows unless configured otherwise; none for zero rows.
pub(super) fn segments(fields: &mut Fields<'_>, spec: &mut EncoderSpec) {
    let rows = fields.optional_size("type_vocab_size", 0..=MOST_ROWS).unwrap_or(2);
    spec.token_types = (rows > 0).then(|| table("token_type", rows));
}

/// A layer of BERT.
pub(super) fn layer(number: usize) -> Layer {
    let name = |part: &str| format!("encoder.layer.{number}.{part}");
    Layer {
        query_key_value: Product::biased(["query", "key", "value"].map(|part| name(&format!("attention.self.{part}")))),
        attention_output: Product::biased([name("attention.output.dense")]),
        attention_norms: Norms::sum(name("attention.output.LayerNorm")),
        feed_forward_in: Product::biased([name("intermediate.dense")]),
        feed_forward_out: Product::biased([name("output.dense")]),
        feed_forward_norms: Norms::sum(name("output.LayerNorm")),
        ..Layer::default()
    }
}

/// The rules for checkpoints of `...For...` classes, which have a prefix; the oldest use gamma and beta.
pub(super) fn name_rules(prefix: &str) -> NameRules {
    let ending = |old: &str, new: &str| (format!("LayerNorm.{old}"), format!("LayerNorm.{new}"));
    NameRules {
        prefixes: vec![prefix.to_owned()],
        endings: vec![ending("gamma", "weight"), ending("beta", "bias")],
        ..NameRules::default()
    }
}
