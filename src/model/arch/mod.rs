//! Architectures: from config.json to `EncoderSpec` and a name table, with no tensor code.

mod albert;
mod bert;
mod big_bird;
mod bitnet;
mod code;
mod config;
mod deberta_v2;
mod distilbert;
mod electra;
mod eurobert;
mod forms;
mod gemma2;
mod gemma3;
mod gpt2;
mod gpt_neo;
mod gpt_neox;
mod granite;
mod gte;
mod heads;
mod jina_bert;
mod jina_embeddings_v3;
mod keys;
mod liquid_moe;
mod llama;
mod longformer;
mod modernbert;
mod mpnet;
mod nomic_bert;
mod nomic_experts;
mod olmo2;
mod phi3;
mod quantization;
mod qwen3;
mod roberta;
mod rope;
mod rotary_bert;
mod row;
mod t5;
mod table;
mod xlm_roberta_flash;

pub use heads::{HEADS, ReadHead};
pub use quantization::read as read_quantization;

pub use row::{Architecture, Shaders};
pub use table::ARCHITECTURES;

/// Classes of the first module in the architectures' own code, as modules.json names them.
pub const OWN_MODULES: &[&str] = &[xlm_roberta_flash::MODULE];

#[cfg(test)]
mod tests;
