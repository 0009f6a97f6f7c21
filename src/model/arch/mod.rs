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
mod xlm_roberta_flash;

pub use heads::{HEADS, ReadHead};
pub use quantization::read as read_quantization;

use row::row;
pub use row::{Architecture, Shaders};

use crate::graph::split::BY_CONTENT;

/// The class that uses tokenizer.json unchanged.
const AS_IT_IS: &str = "TokenizersBackend";

/// Classes of the first module in the architectures' own code, as modules.json names them.
pub const OWN_MODULES: &[&str] = &[xlm_roberta_flash::MODULE];

/// The architectures that can be loaded.
pub const ARCHITECTURES: &[Architecture] = &[
    row("albert", "Albert", &["albert.", "encoder.albert_layer_groups."], albert::read)
        .models("paraphrase-albert-small-v2")
        .adds("layers that share their weights; embeddings of their own width and a projection to the encoder's")
        .tokenizer("AlbertTokenizer"),
    row("bert", "Bert", &["bert."], bert::read)
        .models("all-MiniLM, bge, e5, gte-base; jina-embeddings-v2-base-en and -small-en")
        .adds(
            "with `position_embedding_type` `alibi`: ALiBi in place of positions, a gated feed-forward part; not \
             its variant with norms of queries and keys",
        )
        .tokenizer("BertTokenizer"),
    row("big_bird", "BigBird", &["bert."], big_bird::read)
        .models("BigBird encoders")
        .adds(
            "BERT with gelu_new and, with `rescale_embeddings`, scaled embeddings; full attention: with `attention_type` \
         `block_sparse` only up to the length where the reference computes it in full, 704 tokens by default, with \
         `original_full` for any length",
        )
        .tokenizer("BigBirdTokenizer")
        .shaders("bigbird", "random-blocks"),
    row("bitnet", "BitNet", llama::MARKS, bitnet::read)
        .models("bitnet-b1.58-2B-4T")
        .adds(
            "LLaMA with squared ReLU and norms before the second product of each part; matrices as \
             `quantization_config` says: ternary ones, packed or rounded when they are read, or in floating point",
        )
        .shaders("llama", "grouped"),
    row("camembert", "Camembert", &["roberta."], roberta::read)
        .models("sentence-camembert")
        .adds("as `roberta`")
        .tokenizer("CamembertTokenizer"),
    row("deberta-v2", "DebertaV2", &["deberta.", "encoder.layer.0.attention.self.query_proj."], deberta_v2::read)
        .models("DeBERTa-v2 and v3 encoders, mdeberta-v3-base")
        .adds(
            "BERT whose scores also depend on distances, by content (`c2p`, `p2c`), in logarithmic buckets or not; \
             without a convolution (v2-xlarge has one) and with embeddings of the encoder's width",
        )
        .tokenizer("DebertaV2Tokenizer")
        .whole(BY_CONTENT),
    row("distilbert", "DistilBert", &["distilbert.", "transformer.layer."], distilbert::read)
        .models("msmarco-distilbert, distiluse")
        .adds("names of its own; epsilon 1e-12, as in the reference, whatever the configuration says")
        .tokenizer("BertTokenizer"),
    row("electra", "Electra", &["electra.", "embeddings_project."], electra::read)
        .models("ELECTRA encoders")
        .adds("embeddings of their own width and a projection to the encoder's")
        .tokenizer("ElectraTokenizer"),
    row("eurobert", "EuroBert", llama::MARKS, eurobert::read)
        .models("EuroBERT")
        .adds("LLaMA in which each token sees all others")
        .shaders("llama", "grouped"),
    row("gemma2", "Gemma2", llama::MARKS, gemma2::read)
        .models("bge-multilingual-gemma2")
        .adds(
            "LLaMA with norms before and after each part, scaled embeddings, a soft cap of the scores \
         (`attn_logit_softcapping`), and a window in every second layer; causal",
        )
        .tokenizer("GemmaTokenizer")
        .shaders("llama", "grouped"),
    row("gemma3_text", "Gemma3Text", llama::MARKS, gemma3::read)
        .models("EmbeddingGemma, BitNet-embedding-270M")
        .adds(
            "norms before and after each part and of each head, scaled embeddings; windows and rotary positions of \
         two kinds; with norms of the products (`q_proj.norm.weight`) ternary matrices, as BitNet-embedding-270M",
        )
        .tokenizer("GemmaTokenizer")
        .shaders("llama", "grouped"),
    row("gpt2", "GPT2", &["h.0.attn.c_attn.", "transformer.h."], gpt2::read)
        .models("SGPT, distilgpt2")
        .adds(
            "a decoder: norms before the parts of a layer and after the last, causal attention; an empty text has \
             no tokens, and with mean or last-token pooling the zero vector",
        )
        .tokenizer("GPT2Tokenizer")
        .shaders("gpt", "causal"),
    row("gpt_neo", "GPTNeo", &["h.0.attn.attention.", "transformer.h.0.attn.attention."], gpt_neo::read)
        .models("SGPT-125M, GPT-Neo")
        .adds("GPT-2 with separate projections, scores without a factor, and a window in some layers")
        .tokenizer("GPT2Tokenizer")
        .shaders("gpt", "causal"),
    row("gpt_neox", "GPTNeoX", &["gpt_neox.", "layers.0.attention.query_key_value."], gpt_neox::read)
        .models("Pythia")
        .adds(
            "GPT-2 with rotary positions in a share of each head's columns; both parts of a layer read the same \
             vectors",
        )
        .tokenizer("GPTNeoXTokenizer")
        .shaders("gpt", "causal"),
    row("granite", "Granite", llama::MARKS, granite::read)
        .models("decoders of Granite 3")
        .adds(
            "LLaMA with factors on embeddings, scores and parts; granite-embedding models are `roberta`, \
         `xlm-roberta` and `modernbert`",
        )
        .tokenizer(AS_IT_IS)
        .shaders("granite", "causal"),
    row("gte", "Gte", &["gte.", "encoder.layer.0.attention.qkv_proj."], gte::read)
        .models("snowflake-arctic-embed-m-v2.0, gte-multilingual in transformers' format")
        .adds("as `nomic_bert`, with biases and erf GELU; segment embeddings only where the configuration has them")
        .tokenizer("XLMRobertaTokenizer"),
    row(
        "jina_embeddings_v3",
        "JinaEmbeddingsV3",
        &["encoder.layers.0.mixer.", "roberta.encoder.layers.0.mixer."],
        jina_embeddings_v3::read,
    )
    .models("jina-embeddings-v3-hf")
    .adds(
        "transformers' format of jina-embeddings-v3: rotary positions in place of a table; without the adapters for \
         tasks, which are files of peft there, as sentence-transformers loads it",
    )
    .tokenizer("XLMRobertaTokenizer"),
    row(
        "liquid_moe",
        "LiquidMoe",
        &["encoder.layers.1.mlp.router.cell.", "bert.encoder.layers.1.mlp.router.cell."],
        liquid_moe::read,
    )
    .models("none published; the format is on the page of models")
    .adds(
        "`nomic_bert` with mixtures of experts whose router reads the state of a liquid time-constant cell in place of \
         the row",
    ),
    row("llama", "Llama", llama::MARKS, llama::llama)
        .models("decoders such as Llama 3")
        .adds(
            "norms by the root mean square, a gated feed-forward part, rotary positions in all scalings (`linear`, \
         `dynamic`, `llama3`, `yarn`, `longrope`), groups of heads with the same keys; bidirectional with \
         `is_causal` false",
        )
        .shaders("llama", "grouped"),
    row("longformer", "Longformer", &["longformer."], longformer::read)
        .models("longformer-base-4096")
        .adds("as `roberta`, within a window in each layer (`attention_window`), without global tokens")
        .tokenizer("LongformerTokenizer")
        .shaders("longformer", "global-window"),
    row("mistral", "Mistral", llama::MARKS, llama::mistral)
        .models("e5-mistral, bge-en-icl, Linq-Embed")
        .adds("LLaMA within a window")
        .mended_tokenizer(AS_IT_IS)
        .shaders("llama", "grouped"),
    row("modernbert", "ModernBert", &["layers.0.attn.Wqkv.", "model.layers.0.attn.Wqkv."], modernbert::read)
        .models("gte-modernbert-base, nomic's modernbert-embed, granite-embedding-english-r2")
        .adds(
            "norms before the parts of a layer, a gated feed-forward part, rotary positions; most layers attend \
             within a window",
        )
        .always_tokenizer(AS_IT_IS)
        .shaders("modernbert", "windowed"),
    row(
        "mpnet",
        "MPNet",
        &["mpnet.", "encoder.relative_attention_bias.", "encoder.layer.0.attention.attn."],
        mpnet::read,
    )
    .models("all-mpnet-base-v2, multi-qa-mpnet")
    .adds(
        "biases of attention by distance, shared by all layers; padding token 1 and 32 buckets, as in the \
         reference, whatever the configuration says",
    )
    .tokenizer("MPNetTokenizer"),
    row("mt5", "MT5", t5::MARKS, t5::mt5)
        .models("mT5")
        .adds("as `t5`")
        .tokenizer("T5Tokenizer")
        .decodes()
        .shaders("t5", "cross"),
    row("new", "New", &["new.", "encoder.layer.0.attention.qkv_proj."], gte::read_new)
        .models("gte-base-en-v1.5, gte-large-en-v1.5, gte-multilingual-base")
        .adds("`gte` with the keys of its own code, and its ntk scaling of the rotary positions"),
    row("nomic_bert", "NomicBert", &["nomic_bert.", "encoder.layers.0.attn.Wqkv."], nomic_bert::read)
        .models("nomic-embed-text-v1 and v1.5, nomic-embed-text-v2-moe, CodeRankEmbed")
        .adds(
            "rotary positions in place of a table, a gated feed-forward part, products without biases; \
             transformers' keys and tensor names or those of the hub's own code; in v2 mixtures of experts, products \
             with biases, and no gates",
        )
        .tokenizer("BertTokenizer"),
    row(
        "olmo2",
        "Olmo2",
        &["layers.0.post_feedforward_layernorm.", "model.layers.0.post_feedforward_layernorm."],
        olmo2::read,
    )
    .models("decoders of OLMo 2")
    .adds("LLaMA with norms after the parts, and of all heads of the queries and of the keys together")
    .tokenizer(AS_IT_IS)
    .shaders("llama", "grouped"),
    row("phi3", "Phi3", phi3::MARKS, phi3::read)
        .models("decoders of Phi-3 and Phi-4-mini")
        .adds("LLaMA with joint products, rotary positions in a share of each head's columns and `longrope`")
        .always_tokenizer(AS_IT_IS)
        .shaders("llama", "grouped"),
    row("qwen2", "Qwen2", llama::MARKS, llama::qwen2)
        .models("gte-Qwen2, stella")
        .adds("LLaMA with biases; a window in some layers")
        .always_tokenizer("Qwen2Tokenizer")
        .shaders("llama", "grouped"),
    row("qwen3", "Qwen3", llama::MARKS, qwen3::read)
        .models("Qwen3-Embedding, BitNet-embedding-0.6B")
        .adds(
            "LLaMA with a norm of each head of the queries and the keys; with norms of the products \
             (`q_proj.norm.weight`) ternary matrices, as BitNet-embedding-0.6B",
        )
        .tokenizer("Qwen2Tokenizer")
        .shaders("llama", "grouped"),
    row("roberta", "Roberta", &["roberta."], roberta::read)
        .models("all-distilroberta-v1, all-roberta-large-v1")
        .adds("positions counted from the padding token's id + 1, over the non-padding tokens")
        .tokenizer("RobertaTokenizer"),
    row("t5", "T5", t5::MARKS, t5::t5)
        .models("sentence-t5, gtr-t5")
        .adds(
            "no biases of products, norms by the root mean square before the parts of a layer, biases of attention by \
             distance, no limit of positions; in float16 the weights are rounded to it, and all values are float32, as \
             they may leave its range; the decoder, where a checkpoint holds it, is for \
             [`decode_states`](../guides/encoding.md#states-of-a-decoder)",
        )
        .tokenizer("T5Tokenizer")
        .decodes()
        .shaders("t5", "cross"),
    row("xlm-roberta", "XLMRoberta", &["roberta."], roberta::read)
        .models("multilingual-e5, bge-m3, paraphrase-multilingual-mpnet-base-v2; jina-embeddings-v3")
        .adds(
            "as `roberta`; in the format of Jina's own code rotary positions in place of a table, and an adapter for \
             each task",
        )
        .tokenizer("XLMRobertaTokenizer"),
];

#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;
