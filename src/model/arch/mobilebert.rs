//! MobileBERT (Sun et al. 2020): BERT with layers of fewer columns than the hidden state, several feed-forward parts in each,
//! and words' vectors made of those of three neighbours.

use super::config::{self, BERT_KEYS, ConfigFile, Keys, MOST_COLUMNS, MOST_LAYERS, Read, name_rules, segments};
use crate::model::fields::Fields;
use crate::model::spec::{
    BeyondFloat16, EncoderSpec, FeedForward, NameRules, Narrow, NormKind, Normed, Norms, Product, WordProjection,
};

const KEYS: Keys = Keys { activation: ("hidden_act", "relu"), ..BERT_KEYS };
/// `embedding_size` and `intra_bottleneck_size` if missing in the configuration.
const COLUMNS: usize = 128;

/// Reads a `model_type: "mobilebert"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let mut rules = name_rules("mobilebert.");
    let spec = config::read(config, &KEYS, |fields, spec| {
        segments(fields, spec);
        words(fields, spec, &mut rules);
        norms(fields, spec);
        let most = MOST_LAYERS / spec.layers.len();
        let parts = fields.optional_size("num_feedforward_networks", 1..=most).unwrap_or(4);
        for (number, layer) in spec.layers.iter_mut().enumerate() {
            let part = |part: usize| {
                let name = |end: &str| format!("encoder.layer.{number}.ffn.{part}.{end}");
                FeedForward {
                    input: Product::biased([name("intermediate.dense")]),
                    output: Product::biased([name("output.dense")]),
                    norms: Norms::sum(name("output.LayerNorm")),
                }
            };
            layer.first_feed_forwards = (0..parts - 1).map(part).collect();
        }
        if fields.flag_or("use_bottleneck", true) {
            narrow(fields, spec, &mut rules);
        }
        if fields.get("true_hidden_size").is_some() {
            fields.expect_size("true_hidden_size", spec.heads * spec.head_dim);
        }
    })?;
    Ok((spec, rules))
}

fn words(fields: &mut Fields<'_>, spec: &mut EncoderSpec, rules: &mut NameRules) {
    let name = "embeddings.embedding_transformation";
    let neighbours = fields.flag_or("trigram_input", true);
    spec.embedding = fields.optional_size("embedding_size", 1..=MOST_COLUMNS).unwrap_or(COLUMNS);
    if neighbours || spec.embedding != spec.hidden {
        spec.word_projection = Some(WordProjection { name: name.into(), neighbours });
    } else {
        rules.ignored.push(format!("{name}.*"));
    }
}

fn norms(fields: &mut Fields<'_>, spec: &mut EncoderSpec) {
    match fields.text("normalization_type").unwrap_or("no_norm") {
        // Nothing bounds the numbers: in the reference's test of mobilebert-uncased they reach 2.5e7.
        "no_norm" => (spec.norm, spec.beyond_float16) = (NormKind::Affine, BeyondFloat16::Anywhere),
        "layer_norm" => {
            let last = |number: usize| format!("encoder.layer.{number}.output.LayerNorm");
            spec.usual_eps = (0..spec.layers.len()).map(last).chain(spec.embedding_norm.clone()).collect();
        }
        other => fields.fault(format!("normalization_type is {other:?}; known are no_norm, layer_norm")),
    }
}

/// Layers of `intra_bottleneck_size` columns.
fn narrow(fields: &mut Fields<'_>, spec: &mut EncoderSpec, rules: &mut NameRules) {
    let columns = fields.optional_size("intra_bottleneck_size", 1..=MOST_COLUMNS).unwrap_or(COLUMNS);
    let all = fields.flag_or("use_bottleneck_attention", false);
    if !all && !fields.flag_or("key_query_shared_bottleneck", true) {
        let reason = "the reference then multiplies hidden_size columns by matrices for intra_bottleneck_size";
        fields.fault(format!("use_bottleneck_attention and key_query_shared_bottleneck are both false: {reason}"));
    }
    if !columns.is_multiple_of(spec.heads) {
        fields
            .fault(format!("intra_bottleneck_size {columns} is not a multiple of num_attention_heads {}", spec.heads));
    }
    spec.head_dim = columns / spec.heads;
    for (number, layer) in spec.layers.iter_mut().enumerate() {
        let name = |part: &str| format!("encoder.layer.{number}.{part}");
        let normed = |part: &str| {
            let name = |end: &str| name(&format!("bottleneck.{part}.{end}"));
            Normed { product: Product::biased([name("dense")]), norm: name("LayerNorm") }
        };
        if all {
            rules.ignored.push(name("bottleneck.attention.*"));
        }
        layer.narrow = Some(Narrow {
            columns,
            input: normed("input"),
            attended: (!all).then(|| normed("attention")),
            whole_values: !all,
            output: Product::biased([name("output.bottleneck.dense")]),
            norms: Norms::sum(name("output.bottleneck.LayerNorm")),
        });
    }
}
