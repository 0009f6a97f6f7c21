//! DeBERTa (He et al. 2020), the first version: queries, keys and values of a head stored together, without biases of the
//! keys; every distance up to the farthest has a vector of its own.

use super::config::{self, ConfigFile, Read};
use super::deberta_v2::{positive, read_as};
use crate::model::distances::Distances;
use crate::model::fields::Fields;
use crate::model::spec::{Layer, Order, Product, Table};

/// Reads a `model_type: "deberta"` configuration.
///
/// # Errors
/// As [`config::read`]; `Unsupported` for embeddings of their own width.
pub fn read(config: ConfigFile<'_>) -> Read {
    read_as(config, distances, |_, layers, terms| {
        for (number, layer) in layers.iter_mut().enumerate() {
            let name = |part: &str| format!("encoder.layer.{number}.attention.self.{part}");
            let biases = ["q_bias", "", "v_bias"].map(|part| (!part.is_empty()).then(|| name(part)));
            let joint = Product { bias: true, biases: biases.into(), ..Product::plain([name("in_proj")]) };
            *layer = Layer {
                query_key_value: Product { order: Order::ByHead, ..joint },
                by_distance: [
                    terms[0].then(|| Product::plain([name("pos_proj")])),
                    terms[1].then(|| Product::biased([name("pos_q_proj")])),
                ],
                ..config::layer(number)
            };
        }
    })
}

fn distances(fields: &mut Fields<'_>, texts: usize) -> Distances {
    let farthest = positive(fields, "max_relative_positions").unwrap_or(texts);
    let table = Table { name: "encoder.rel_embeddings.weight".into(), rows: 2 * farthest };
    Distances::new(table, None, farthest, texts)
}
