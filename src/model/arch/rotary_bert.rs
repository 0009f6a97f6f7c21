//! BERT with rotary positions in place of a table, as NomicBERT, GTE and Jina v3 have it.

use super::config::{self, MOST_COLUMNS, longest, segments};
use super::rope;
use crate::model::fields::Fields;
use crate::model::spec::{EncoderSpec, Layer, NameRules, Norms, Product};

/// A layer under transformers' names, all products with biases and the feed-forward part gated.
pub(super) fn layer(number: usize) -> Layer {
    let name = |part: &str| format!("layers.{number}.{part}");
    Layer {
        query_key_value: Product::biased(["q_proj", "k_proj", "v_proj"].map(|part| name(&format!("self_attn.{part}")))),
        rotary: Some(0),
        attention_output: Product::biased([name("self_attn.o_proj")]),
        attention_norms: Norms::sum(name("post_attention_layernorm")),
        feed_forward_in: Product::biased([name("mlp.up_proj"), name("mlp.gate_proj")]),
        feed_forward_out: Product::biased([name("mlp.down_proj")]),
        feed_forward_norms: Norms::sum(name("post_mlp_layernorm")),
        ..config::layer(number)
    }
}

/// The columns of a head, of which half turn against the other half.
pub(super) fn columns(fields: &mut Fields<'_>, spec: &mut EncoderSpec) {
    spec.head_dim = fields.optional_size("head_dim", 1..=MOST_COLUMNS).unwrap_or(spec.head_dim);
    if !spec.head_dim.is_multiple_of(2) {
        let columns = spec.head_dim;
        fields.fault(format!("rotary positions need heads of an even number of columns, and theirs is {columns}"));
    }
}

/// Positions of that kind for texts of any length that the configuration states, with the key of their base and its usual value.
pub(super) fn rotary(fields: &mut Fields<'_>, spec: &mut EncoderSpec, base: (&str, f64)) {
    one_segment(fields, spec);
    columns(fields, spec);
    spec.rotary = vec![rope::read(fields, spec.head_dim, base)];
    spec.positions = longest(spec);
}

/// The segment table, which has one row unless configured otherwise.
pub(super) fn one_segment(fields: &mut Fields<'_>, spec: &mut EncoderSpec) {
    segments(fields, spec);
    if let (None, Some(table)) = (fields.get("type_vocab_size"), &mut spec.token_types) {
        table.rows = 1;
    }
}

/// Names in the files of the family's own code, which become those of transformers.
pub(super) struct OwnNames<'a> {
    /// Prefixes of the classes with a head, in either.
    pub prefixes: &'a [&'a str],
    /// Starts of names, and those of transformers.
    pub starts: &'a [(&'a str, &'a str)],
    /// Products and norms of a layer.
    pub parts: &'a [(&'a str, &'a str)],
    /// Products that are stored as one, in this order of their rows.
    pub stacked: &'a [(&'a str, &'a [&'a str])],
}

impl OwnNames<'_> {
    pub(super) fn rules(&self) -> NameRules {
        let both = |name: &str| ["weight", "bias"].map(|end| format!("{name}.{end}"));
        let pairs = |old: &str, new: &str| both(old).into_iter().zip(both(new));
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let stacked = |(whole, parts): &(&str, &[&str])| {
            ["weight", "bias"].map(|end| {
                let of = |name: &&str| format!("{name}.{end}");
                (of(whole), parts.iter().map(of).collect())
            })
        };
        NameRules {
            prefixes: owned(self.prefixes),
            starts: self.starts.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect(),
            endings: self.parts.iter().flat_map(|(old, new)| pairs(old, new)).collect(),
            stacked: self.stacked.iter().flat_map(stacked).collect(),
            ..NameRules::default()
        }
    }
}

/// The parts of a product of queries, keys and values.
pub(super) const QUERY_KEY_VALUE: &[&str] = &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"];
