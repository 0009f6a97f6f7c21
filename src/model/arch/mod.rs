//! Architectures: from config.json to `EncoderSpec` and a name table, with no tensor code.

mod albert;
mod bert;
mod config;
mod deberta_v2;
mod distilbert;
mod electra;
mod eurobert;
mod gemma2;
mod gemma3;
mod gpt2;
mod gpt_neox;
mod granite;
mod gte;
mod harmless;
mod jina_bert;
mod jina_embeddings_v3;
mod llama;
mod modernbert;
mod mpnet;
mod nomic_bert;
mod qwen3;
mod roberta;
mod rope;
mod rotary_bert;
mod shaders;
mod t5;

use std::path::Path;

use serde_json::{Map, Value};
pub use shaders::{SHADERS, Shaders};

use super::spec::{EncoderSpec, NameRules};
use crate::Result;

/// Reads a configuration into data.
pub type ReadSpec = fn(&Map<String, Value>, &Path) -> Result<(EncoderSpec, NameRules)>;

/// A row of [`ARCHITECTURES`].
pub struct Architecture {
    /// `model_type` of config.json.
    pub model_type: &'static str,
    /// Prefix of its class names in `architectures`, before `Model` or `For`.
    pub class: &'static str,
    /// Prefixes of stored names that identify a checkpoint of this architecture, or of another with the same prefixes.
    pub marks: Names,
    /// The reader of its configuration.
    pub read: ReadSpec,
}

type Names = &'static [&'static str];

const fn row(model_type: &'static str, class: &'static str, marks: Names, read: ReadSpec) -> Architecture {
    Architecture { model_type, class, marks, read }
}

/// The architectures that can be loaded.
pub const ARCHITECTURES: &[Architecture] = &[
    row("albert", "Albert", &["albert.", "encoder.albert_layer_groups."], albert::read),
    row("bert", "Bert", &["bert."], bert::read),
    row("camembert", "Camembert", &["roberta."], roberta::read),
    row("deberta-v2", "DebertaV2", &["deberta.", "encoder.layer.0.attention.self.query_proj."], deberta_v2::read),
    row("distilbert", "DistilBert", &["distilbert.", "transformer.layer."], distilbert::read),
    row("electra", "Electra", &["electra.", "embeddings_project."], electra::read),
    row("eurobert", "EuroBert", llama::MARKS, eurobert::read),
    row("gemma2", "Gemma2", llama::MARKS, gemma2::read),
    row("gemma3_text", "Gemma3Text", llama::MARKS, gemma3::read),
    row("gpt2", "GPT2", &["h.0.attn.c_attn.", "transformer.h."], gpt2::read),
    row("gpt_neox", "GPTNeoX", &["gpt_neox.", "layers.0.attention.query_key_value."], gpt_neox::read),
    row("granite", "Granite", llama::MARKS, granite::read),
    row("gte", "Gte", &["gte.", "encoder.layer.0.attention.qkv_proj."], gte::read),
    row(
        "jina_embeddings_v3",
        "JinaEmbeddingsV3",
        &["encoder.layers.0.mixer.", "roberta.encoder.layers.0.mixer."],
        jina_embeddings_v3::read,
    ),
    row("llama", "Llama", llama::MARKS, llama::llama),
    row("mistral", "Mistral", llama::MARKS, llama::mistral),
    row("modernbert", "ModernBert", &["layers.0.attn.Wqkv.", "model.layers.0.attn.Wqkv."], modernbert::read),
    row(
        "mpnet",
        "MPNet",
        &["mpnet.", "encoder.relative_attention_bias.", "encoder.layer.0.attention.attn."],
        mpnet::read,
    ),
    row("mt5", "MT5", t5::MARKS, t5::mt5),
    row("new", "New", &["new.", "encoder.layer.0.attention.qkv_proj."], gte::read_new),
    row("nomic_bert", "NomicBert", &["nomic_bert.", "encoder.layers.0.attn.Wqkv."], nomic_bert::read),
    row("qwen2", "Qwen2", llama::MARKS, llama::qwen2),
    row("qwen3", "Qwen3", llama::MARKS, qwen3::read),
    row("roberta", "Roberta", &["roberta."], roberta::read),
    row("t5", "T5", t5::MARKS, t5::t5),
    row("xlm-roberta", "XLMRoberta", &["roberta."], roberta::read),
];

#[cfg(test)]
mod tests;
