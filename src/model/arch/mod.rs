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
    /// Models of this architecture, for the documentation.
    pub models: &'static str,
    /// The class of its tokenizer unless a file names another, if that class builds the tokenizer itself.
    pub tokenizer: Option<&'static str>,
}

type Names = &'static [&'static str];

const fn row(model_type: &'static str, class: &'static str, marks: Names, read: ReadSpec) -> Architecture {
    Architecture { model_type, class, marks, read, models: "", tokenizer: None }
}

impl Architecture {
    const fn models(self, models: &'static str) -> Self {
        Architecture { models, ..self }
    }

    const fn tokenizer(self, class: &'static str) -> Self {
        Architecture { tokenizer: Some(class), ..self }
    }
}

/// The architectures that can be loaded.
pub const ARCHITECTURES: &[Architecture] = &[
    row("albert", "Albert", &["albert.", "encoder.albert_layer_groups."], albert::read)
        .models("paraphrase-albert-small-v2")
        .tokenizer("AlbertTokenizer"),
    row("bert", "Bert", &["bert."], bert::read)
        .models("all-MiniLM, bge, e5, gte-base; jina-embeddings-v2-base-en and -small-en")
        .tokenizer("BertTokenizer"),
    row("camembert", "Camembert", &["roberta."], roberta::read)
        .models("sentence-camembert")
        .tokenizer("CamembertTokenizer"),
    row("deberta-v2", "DebertaV2", &["deberta.", "encoder.layer.0.attention.self.query_proj."], deberta_v2::read)
        .models("DeBERTa-v2 and v3 encoders, mdeberta-v3-base")
        .tokenizer("DebertaV2Tokenizer"),
    row("distilbert", "DistilBert", &["distilbert.", "transformer.layer."], distilbert::read)
        .models("msmarco-distilbert, distiluse")
        .tokenizer("BertTokenizer"),
    row("electra", "Electra", &["electra.", "embeddings_project."], electra::read)
        .models("ELECTRA encoders")
        .tokenizer("ElectraTokenizer"),
    row("eurobert", "EuroBert", llama::MARKS, eurobert::read).models("EuroBERT"),
    row("gemma2", "Gemma2", llama::MARKS, gemma2::read).models("bge-multilingual-gemma2"),
    row("gemma3_text", "Gemma3Text", llama::MARKS, gemma3::read).models("EmbeddingGemma"),
    row("gpt2", "GPT2", &["h.0.attn.c_attn.", "transformer.h."], gpt2::read)
        .models("SGPT, distilgpt2")
        .tokenizer("GPT2Tokenizer"),
    row("gpt_neox", "GPTNeoX", &["gpt_neox.", "layers.0.attention.query_key_value."], gpt_neox::read).models("Pythia"),
    row("granite", "Granite", llama::MARKS, granite::read).models("decoders of Granite 3"),
    row("gte", "Gte", &["gte.", "encoder.layer.0.attention.qkv_proj."], gte::read)
        .models("snowflake-arctic-embed-m-v2.0, gte-multilingual in transformers' format"),
    row(
        "jina_embeddings_v3",
        "JinaEmbeddingsV3",
        &["encoder.layers.0.mixer.", "roberta.encoder.layers.0.mixer."],
        jina_embeddings_v3::read,
    )
    .models("jina-embeddings-v3-hf"),
    row("llama", "Llama", llama::MARKS, llama::llama).models("decoders such as Llama 3"),
    row("mistral", "Mistral", llama::MARKS, llama::mistral).models("e5-mistral, bge-en-icl, Linq-Embed"),
    row("modernbert", "ModernBert", &["layers.0.attn.Wqkv.", "model.layers.0.attn.Wqkv."], modernbert::read)
        .models("gte-modernbert-base, nomic's modernbert-embed, granite-embedding-english-r2"),
    row(
        "mpnet",
        "MPNet",
        &["mpnet.", "encoder.relative_attention_bias.", "encoder.layer.0.attention.attn."],
        mpnet::read,
    )
    .models("all-mpnet-base-v2, multi-qa-mpnet")
    .tokenizer("MPNetTokenizer"),
    row("mt5", "MT5", t5::MARKS, t5::mt5).models("mT5 encoders").tokenizer("T5Tokenizer"),
    row("new", "New", &["new.", "encoder.layer.0.attention.qkv_proj."], gte::read_new)
        .models("gte-base-en-v1.5, gte-large-en-v1.5, gte-multilingual-base"),
    row("nomic_bert", "NomicBert", &["nomic_bert.", "encoder.layers.0.attn.Wqkv."], nomic_bert::read)
        .models("nomic-embed-text-v1 and v1.5, CodeRankEmbed"),
    row("qwen2", "Qwen2", llama::MARKS, llama::qwen2).models("gte-Qwen2, stella"),
    row("qwen3", "Qwen3", llama::MARKS, qwen3::read).models("Qwen3-Embedding"),
    row("roberta", "Roberta", &["roberta."], roberta::read)
        .models("all-distilroberta-v1, all-roberta-large-v1")
        .tokenizer("RobertaTokenizer"),
    row("t5", "T5", t5::MARKS, t5::t5).models("sentence-t5, gtr-t5").tokenizer("T5Tokenizer"),
    row("xlm-roberta", "XLMRoberta", &["roberta."], roberta::read)
        .models("multilingual-e5, bge-m3, paraphrase-multilingual-mpnet-base-v2")
        .tokenizer("XLMRobertaTokenizer"),
];

#[cfg(test)]
mod tests;
