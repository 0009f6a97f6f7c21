//! UMT5 (Chung et al. 2023): T5 whose layers have biases by distance of their own.

use super::config::{ConfigFile, Read};
use super::t5;
use crate::model::spec::EncoderSpec;

/// Reads a `model_type: "umt5"` configuration.
///
/// # Errors
/// As [`t5::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let (mut spec, rules) = t5::read(config, "gated-gelu", Some(0))?;
    own_biases(&mut spec, "encoder");
    if let Some(decoder) = &mut spec.decoder {
        own_biases(&mut decoder.stack, "decoder");
    }
    Ok((spec, rules))
}

fn own_biases(spec: &mut EncoderSpec, part: &str) {
    for (number, layer) in spec.layers.iter_mut().enumerate() {
        layer.relative_biases = Some(t5::biases(part, number));
    }
}
