//! The shaders of `attention_output` for each architecture.

/// A row of [`SHADERS`].
pub struct Shaders {
    /// The architecture under which shaders are registered.
    pub architecture: &'static str,
    /// Name of its row in `ops::attention_output::FAMILIES`.
    pub family: &'static str,
    /// Every `model_type` with another name that uses these shaders.
    pub model_types: &'static [&'static str],
}

/// Architectures with their own shaders; all others use the generic one.
pub const SHADERS: &[Shaders] = &[
    Shaders { architecture: "bigbird", family: "random-blocks", model_types: &["big_bird", "bigbird_pegasus"] },
    Shaders {
        architecture: "gpt",
        family: "causal",
        model_types: &["gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj"],
    },
    Shaders { architecture: "granite", family: "causal", model_types: &[] },
    Shaders {
        architecture: "llama",
        family: "grouped",
        model_types: &["gemma", "gemma2", "mistral", "qwen2", "qwen3"],
    },
    Shaders { architecture: "longformer", family: "global-window", model_types: &["led"] },
    Shaders { architecture: "modernbert", family: "windowed", model_types: &[] },
    Shaders { architecture: "t5", family: "cross", model_types: &["mt5", "umt5"] },
];
