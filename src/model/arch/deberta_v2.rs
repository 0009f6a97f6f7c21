//! DeBERTa-v2 and v3 (He et al. 2021): BERT whose scores also depend on distances, by content.

use serde_json::{Value, json};

use super::config::{self, BERT_KEYS, ConfigFile, Keys, MOST_ROWS, Read, longest, name_rules, segments};
use super::keys::only;
use crate::Result;
use crate::model::distances::Distances;
use crate::model::fields::Fields;
use crate::model::spec::{EncoderSpec, Layer, NameRules, Product, Table};

const KEYS: Keys = Keys { norm_eps: Some(("layer_norm_eps", 1e-7)), ..BERT_KEYS };

/// Reads a `model_type: "deberta-v2"` configuration.
///
/// # Errors
/// As [`config::read`]; `Unsupported` for embeddings and heads of their own width.
pub fn read(config: ConfigFile<'_>) -> Read {
    read_as(config, distances, |fields, layers, terms| {
        let own = if fields.flag_or("share_att_key", false) { "" } else { "pos_" };
        for (number, layer) in layers.iter_mut().enumerate() {
            let name = |part: &str| format!("encoder.layer.{number}.attention.self.{part}_proj");
            *layer = Layer {
                query_key_value: Product::biased(["query", "key", "value"].map(name)),
                by_distance: [(terms[0], "key"), (terms[1], "query")]
                    .map(|(given, part)| given.then(|| Product::biased([name(&format!("{own}{part}"))]))),
                ..config::layer(number)
            };
        }
    })
}

/// Reads a configuration of either version: `distances` for texts of so many tokens, and `layers` with what
/// [`terms_by_distance`] gives.
///
/// # Errors
/// As [`config::read`]; `Unsupported` for embeddings and heads of their own width.
pub(super) fn read_as(
    config: ConfigFile<'_>,
    distances: fn(&mut Fields<'_>, usize) -> Distances,
    layers: impl FnOnce(&mut Fields<'_>, &mut [Layer], [bool; 2]),
) -> Read {
    let mut rules = name_rules("deberta.");
    let spec = config::read(config, &KEYS, |fields, spec| {
        let texts = spec.positions.longest_text();
        let terms = terms_by_distance(fields, spec, &mut rules);
        if terms.contains(&true) {
            spec.distances = Some(distances(fields, texts));
        }
        layers(fields, &mut spec.layers, terms);
    })?;
    only_sizes(config, &spec)?;
    Ok((spec, rules))
}

/// Reads segments, positions and the factor on scores; returns whether scores have the products of queries, and those of keys,
/// with what they meet by distance.
fn terms_by_distance(fields: &mut Fields<'_>, spec: &mut EncoderSpec, rules: &mut NameRules) -> [bool; 2] {
    if fields.get("type_vocab_size").is_some() {
        segments(fields, spec);
    }
    if !fields.flag_or("position_biased_input", true) {
        spec.positions = longest(spec);
        rules.ignored.push("embeddings.position_embeddings.weight".into());
    }
    let terms = terms(fields);
    let scaled = spec.head_dim * (1 + terms.iter().filter(|term| **term).count());
    spec.score_scale = Some((scaled as f32).sqrt().recip());
    let relative = fields.flag_or("relative_attention", false);
    if !relative || terms == [false; 2] {
        rules.ignored.extend(["encoder.rel_embeddings.weight", "encoder.LayerNorm.*"].map(str::to_owned));
    }
    terms.map(|term| relative && term)
}

/// Refuses embeddings and heads of another width than the encoder's.
fn only_sizes(config: ConfigFile<'_>, spec: &EncoderSpec) -> Result<()> {
    for (key, known) in [("embedding_size", spec.hidden), ("attention_head_size", spec.head_dim)] {
        only(key, config.values.get(key).unwrap_or_default(), &[json!(known)], config.path)?;
    }
    Ok(())
}

/// The terms that `pos_att_type` names.
fn terms(fields: &mut Fields<'_>) -> [bool; 2] {
    let kinds: Vec<String> = match fields.get("pos_att_type") {
        Some(Value::String(kinds)) => kinds.to_lowercase().split('|').map(|kind| kind.trim().to_owned()).collect(),
        _ => fields.texts("pos_att_type").unwrap_or_default().into_iter().map(str::to_owned).collect(),
    };
    ["c2p", "p2c"].map(|term| kinds.iter().any(|kind| kind == term))
}

/// A number that stands for none where it is not above zero.
pub(super) fn positive(fields: &mut Fields<'_>, key: &str) -> Option<usize> {
    let number = fields.number_or(key, -1.0, -1.0..=MOST_ROWS as f64) as i64;
    usize::try_from(number).ok().filter(|number| *number > 0)
}

fn distances(fields: &mut Fields<'_>, texts: usize) -> Distances {
    let farthest = positive(fields, "max_relative_positions").unwrap_or(texts);
    let buckets = positive(fields, "position_buckets");
    if let Some(buckets) = buckets.filter(|buckets| *buckets < 2 || farthest <= buckets / 2 + 1) {
        fields.fault(format!(
            "position_buckets is {buckets} with distances up to {farthest}; expected at least 2, of which half are \
             fewer than these distances"
        ));
    }
    let rows = 2 * buckets.unwrap_or(farthest);
    let table = Table { name: "encoder.rel_embeddings.weight".into(), rows };
    let norms = fields.text("norm_rel_ebd").unwrap_or("none").to_lowercase();
    let norm = norms.split('|').any(|norm| norm.trim() == "layer_norm").then(|| "encoder.LayerNorm".to_owned());
    Distances { norm, ..Distances::new(table, buckets, farthest, texts) }
}
