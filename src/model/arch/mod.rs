//! Architectures: from config.json to `EncoderSpec` and a name table, with no tensor code.

pub mod bert;
