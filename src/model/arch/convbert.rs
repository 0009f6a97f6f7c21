//! ConvBERT (Jiang et al. 2020): BERT with a convolution beside fewer heads of attention, whose weights depend on the tokens
//! around a token.

use super::config::{self, BERT_KEYS, ConfigFile, MOST_COLUMNS, Read, name_rules, segments};
use crate::model::convolution::SpanConvolution;
use crate::model::spec::{Layer, Order, Product};

/// `embedding_size` if missing in the configuration.
const EMBEDDING: usize = 768;

/// Reads a `model_type: "convbert"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let spec = config::read(config, &BERT_KEYS, |fields, spec| {
        segments(fields, spec);
        spec.embedding = fields.optional_size("embedding_size", 1..=MOST_COLUMNS).unwrap_or(EMBEDDING);
        spec.embedding_projection = (spec.embedding != spec.hidden).then(|| "embeddings_project".to_owned());
        let (hidden, wide) = (spec.hidden, spec.intermediate);
        let ratio = fields.optional_size("head_ratio", 1..=MOST_COLUMNS).unwrap_or(2);
        let heads = (spec.heads / ratio).max(1);
        if !hidden.is_multiple_of(2 * heads) {
            fields.fault(format!(
                "hidden_size is {hidden}, expected a multiple of {}, twice the {heads} heads",
                2 * heads
            ));
        }
        (spec.heads, spec.kv_heads, spec.head_dim) = (heads, heads, hidden / heads / 2);
        let taps = fields.optional_size("conv_kernel_size", 1..=MOST_COLUMNS).unwrap_or(9);
        if taps.is_multiple_of(2) {
            fields.fault(format!("conv_kernel_size is {taps}, expected an odd number"));
        }
        let groups = fields.optional_size("num_groups", 1..=MOST_COLUMNS).unwrap_or(1);
        if let Some(size) = [hidden, wide].iter().find(|size| !size.is_multiple_of(groups)) {
            fields.fault(format!("num_groups is {groups}, which does not divide {size} columns"));
        }
        for (number, layer) in spec.layers.iter_mut().enumerate() {
            let name = |part: &str| format!("encoder.layer.{number}.attention.self.{part}");
            let columns = |first| Order::Columns { first, of: hidden };
            let output = layer.attention_output.clone();
            if groups > 1 {
                layer.feed_forward_in.order = Order::GroupedByOperand(groups);
                layer.feed_forward_out.order = Order::GroupedByOperand(groups);
            }
            *layer = Layer {
                span_convolution: Some(SpanConvolution {
                    taps,
                    depthwise: name("key_conv_attn_layer.depthwise.weight"),
                    keys: Product {
                        order: Order::Grouped(1),
                        ..Product::plain([name("key_conv_attn_layer.pointwise")])
                    },
                    keys_bias: name("key_conv_attn_layer.bias"),
                    weights: Product::biased([name("conv_kernel_layer")]),
                    values: Product::biased([name("conv_out_layer")]),
                    output: Product { order: columns(hidden / 2), bias: false, ..output.clone() },
                }),
                attention_output: Product { order: columns(0), ..output },
                ..layer.clone()
            };
        }
    })?;
    Ok((spec, name_rules("convbert.")))
}
