//! `model_type` of config.json to architecture: one row each.

use std::path::Path;

use super::spec::{EncoderSpec, NameRules};
use crate::Result;

/// Turns a configuration into data.
pub type ReadSpec = fn(&serde_json::Map<String, serde_json::Value>, &Path) -> Result<(EncoderSpec, NameRules)>;

/// The architectures, by `model_type`.
pub const ARCHITECTURES: &[(&str, ReadSpec)] = &[("bert", super::arch::bert::read)];

/// The specification of the model configured by `path`.
///
/// # Errors
/// `Unsupported` for an unknown `model_type`, naming those that are known; `ModelFormat` for missing or absurd values.
pub fn read_spec(
    _config: &serde_json::Map<String, serde_json::Value>,
    _path: &Path,
) -> Result<(EncoderSpec, NameRules)> {
    todo!()
}
