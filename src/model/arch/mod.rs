//! Architectures: from config.json to `EncoderSpec` and a name table, with no tensor code.

mod albert;
mod bert;
mod big_bird;
mod bitnet;
mod code;
mod config;
mod convbert;
mod deberta;
mod deberta_v2;
mod distilbert;
mod electra;
mod ernie;
mod eurobert;
mod experts;
mod forms;
mod gemma;
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
mod lfm2;
mod liquid_moe;
mod llama;
mod longformer;
mod mixtral;
mod mobilebert;
mod modernbert;
mod mpnet;
mod nomic_bert;
mod nomic_experts;
mod olmo2;
mod phi;
mod phi3;
mod quantization;
mod qwen3;
mod qwen3_moe;
mod refused;
mod roberta;
mod roformer;
mod rope;
mod rotary_bert;
mod row;
mod squeezebert;
mod stablelm;
mod starcoder2;
mod t5;
mod table;
mod umt5;
mod xlm_roberta_flash;
mod xmod;

pub use heads::{HEADS, ReadHead};
pub use quantization::read as read_quantization;
pub use refused::REFUSED;
pub use row::{Architecture, Shaders};
pub use table::ARCHITECTURES;

/// Classes of the first module in the architectures' own code, as modules.json names them.
pub const OWN_MODULES: &[&str] = &[xlm_roberta_flash::MODULE];

#[cfg(test)]
mod tests;
