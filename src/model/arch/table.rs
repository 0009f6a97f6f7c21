//! The architectures, a row for each `model_type`.

use super::row::{Architecture, row};
use super::{
    albert, bert, big_bird, bitnet, convbert, deberta, deberta_v2, distilbert, electra, ernie, eurobert, gemma, gemma2,
    gemma3, gpt_neo, gpt_neox, gpt2, granite, gte, jina_embeddings_v3, lfm2, liquid_moe, llama, longformer, mixtral,
    mobilebert, modernbert, mpnet, nomic_bert, olmo2, phi, phi3, qwen3, qwen3_moe, roberta, roformer, squeezebert,
    stablelm, starcoder2, t5, umt5, xmod,
};
use crate::graph::split::BY_CONTENT;

/// The class that uses tokenizer.json unchanged.
const AS_IT_IS: &str = "TokenizersBackend";

/// The architectures that can be loaded; the comment of each says how it differs from BERT or from another, for the
/// documentation.
pub const ARCHITECTURES: &[Architecture] = &[
    // layers that share their weights; embeddings of their own width and a projection to the encoder's
    row("albert", "Albert", &["albert.", "encoder.albert_layer_groups."], albert::read)
        .models("paraphrase-albert-small-v2")
        .tokenizer("AlbertTokenizer"),
    // with `position_embedding_type` `alibi`: ALiBi in place of positions, a gated feed-forward part; not its variant
    // with norms of queries and keys
    row("bert", "Bert", &["bert."], bert::read)
        .models("all-MiniLM, bge, e5, gte-base; jina-embeddings-v2-base-en and -small-en")
        .tokenizer("BertTokenizer"),
    // BERT with gelu_new and, with `rescale_embeddings`, scaled embeddings; full attention: with `attention_type`
    // `block_sparse` only up to the length where the reference computes it in full, 704 tokens by default, with
    // `original_full` for any length
    row("big_bird", "BigBird", &["bert."], big_bird::read)
        .models("BigBird encoders")
        .tokenizer("BigBirdTokenizer")
        .shaders("bigbird", "random-blocks"),
    // LLaMA with squared ReLU and norms before the second product of each part; matrices as `quantization_config` says:
    // ternary ones, packed or rounded when they are read, or in floating point
    row("bitnet", "BitNet", llama::MARKS, bitnet::read).models("bitnet-b1.58-2B-4T").shaders("llama", "grouped"),
    // as `roberta`
    row("camembert", "Camembert", &["roberta."], roberta::read)
        .models("sentence-camembert")
        .tokenizer("CamembertTokenizer"),
    // BERT with a convolution beside attention, over the tokens around a token alone: in the reference padding behind a
    // text takes part in it, so that its numbers depend on the batch; here a text's are those without padding; in 16 bits
    // the weights are rounded to them, and all values are float32
    row("convbert", "ConvBert", &["convbert.", "encoder.layer.0.attention.self.key_conv_attn_layer."], convbert::read)
        .models("conv-bert-base, conv-bert-medium-small, conv-bert-small")
        .tokenizer("BertTokenizer"),
    // BERT whose scores also depend on distances, by content (`c2p`, `p2c`); queries, keys and values of a head in one
    // matrix, no biases of the keys
    row("deberta", "Deberta", &["deberta.", "encoder.layer.0.attention.self.in_proj."], deberta::read)
        .models("DeBERTa encoders of the first version")
        .tokenizer("DebertaTokenizer")
        .whole(BY_CONTENT),
    // BERT whose scores also depend on distances, by content (`c2p`, `p2c`), in logarithmic buckets or not; without a
    // convolution (v2-xlarge has one) and with embeddings of the encoder's width
    row("deberta-v2", "DebertaV2", &["deberta.", "encoder.layer.0.attention.self.query_proj."], deberta_v2::read)
        .models("DeBERTa-v2 and v3 encoders, mdeberta-v3-base")
        .tokenizer("DebertaV2Tokenizer")
        .whole(BY_CONTENT),
    // names of its own; epsilon 1e-12, as in the reference, whatever the configuration says
    row("distilbert", "DistilBert", &["distilbert.", "transformer.layer."], distilbert::read)
        .models("msmarco-distilbert, distiluse")
        .tokenizer("BertTokenizer"),
    // embeddings of their own width and a projection to the encoder's
    row("electra", "Electra", &["electra.", "embeddings_project."], electra::read)
        .models("ELECTRA encoders")
        .tokenizer("ElectraTokenizer"),
    // BERT; with `use_task_id` the first row of a table of tasks is added to every token
    row("ernie", "Ernie", &["ernie."], ernie::read)
        .models("ernie-2.0, ernie-3.0 and their small ones")
        .tokenizer("BertTokenizer"),
    // LLaMA in which each token sees all others
    row("eurobert", "EuroBert", llama::MARKS, eurobert::read).models("EuroBERT").shaders("llama", "grouped"),
    // LLaMA with norms times one more than the stored weight and scaled embeddings
    row("gemma", "Gemma", llama::MARKS, gemma::read)
        .models("decoders of Gemma")
        .tokenizer("GemmaTokenizer")
        .shaders("llama", "grouped"),
    // LLaMA with norms before and after each part, scaled embeddings, a soft cap of the scores
    // (`attn_logit_softcapping`), and a window in every second layer; causal
    row("gemma2", "Gemma2", llama::MARKS, gemma2::read)
        .models("bge-multilingual-gemma2")
        .tokenizer("GemmaTokenizer")
        .shaders("llama", "grouped"),
    // norms before and after each part and of each head, scaled embeddings; windows and rotary positions of two kinds;
    // with norms of the products (`q_proj.norm.weight`) ternary matrices, as BitNet-embedding-270M
    row("gemma3_text", "Gemma3Text", llama::MARKS, gemma3::read)
        .models("EmbeddingGemma, BitNet-embedding-270M")
        .tokenizer("GemmaTokenizer")
        .shaders("llama", "grouped"),
    // a decoder: norms before the parts of a layer and after the last, causal attention; an empty text has no tokens,
    // and with mean or last-token pooling the zero vector
    row("gpt2", "GPT2", &["h.0.attn.c_attn.", "transformer.h."], gpt2::read)
        .models("SGPT, distilgpt2")
        .tokenizer("GPT2Tokenizer")
        .shaders("gpt", "causal"),
    // GPT-2 with separate projections, scores without a factor, and a window in some layers
    row("gpt_neo", "GPTNeo", &["h.0.attn.attention.", "transformer.h.0.attn.attention."], gpt_neo::read)
        .models("SGPT-125M, GPT-Neo")
        .tokenizer("GPT2Tokenizer")
        .shaders("gpt", "causal"),
    // GPT-2 with rotary positions in a share of each head's columns; both parts of a layer read the same vectors
    row("gpt_neox", "GPTNeoX", &["gpt_neox.", "layers.0.attention.query_key_value."], gpt_neox::read)
        .models("Pythia")
        .tokenizer("GPTNeoXTokenizer")
        .shaders("gpt", "causal"),
    // LLaMA with factors on embeddings, scores and parts; granite-embedding models are `roberta`, `xlm-roberta` and
    // `modernbert`
    row("granite", "Granite", llama::MARKS, granite::read)
        .models("decoders of Granite 3")
        .tokenizer(AS_IT_IS)
        .shaders("granite", "causal"),
    // as `nomic_bert`, with biases and erf GELU; segment embeddings only where the configuration has them
    row("gte", "Gte", &["gte.", "encoder.layer.0.attention.qkv_proj."], |config| gte::read(config, 160_000.0))
        .models("snowflake-arctic-embed-m-v2.0, gte-multilingual in transformers' format")
        .tokenizer("XLMRobertaTokenizer"),
    // transformers' format of jina-embeddings-v3: rotary positions in place of a table; without the adapters for tasks,
    // which are files of peft there, as sentence-transformers loads it
    row(
        "jina_embeddings_v3",
        "JinaEmbeddingsV3",
        &["encoder.layers.0.mixer.", "roberta.encoder.layers.0.mixer."],
        jina_embeddings_v3::read,
    )
    .models("jina-embeddings-v3-hf")
    .tokenizer("XLMRobertaTokenizer"),
    // LLaMA with norms of the heads; most layers have a short gated convolution over the token and those before it in
    // place of attention; bidirectional attention with `is_causal` false
    row("lfm2", "Lfm2", &["layers.0.operator_norm.", "model.layers.0.operator_norm."], lfm2::read)
        .models("decoders of LFM2, LFM2-ColBERT-350M")
        .shaders("llama", "grouped"),
    // `nomic_bert` with mixtures of experts whose router reads the state of a liquid time-constant cell in place of the
    // row
    row(
        "liquid_moe",
        "LiquidMoe",
        &["encoder.layers.1.mlp.router.cell.", "bert.encoder.layers.1.mlp.router.cell."],
        liquid_moe::read,
    )
    .models("none published; the format is on the page of models"),
    // norms by the root mean square, a gated feed-forward part, rotary positions in all scalings (`linear`, `dynamic`,
    // `llama3`, `yarn`, `longrope`), groups of heads with the same keys; bidirectional with `is_causal` false
    row("llama", "Llama", llama::MARKS, |config| llama::read_as(config, &llama::KEYS, llama::biases))
        .models("decoders such as Llama 3")
        .shaders("llama", "grouped"),
    // as `roberta`, within a window in each layer (`attention_window`), without global tokens
    row("longformer", "Longformer", &["longformer."], longformer::read)
        .models("longformer-base-4096")
        .tokenizer("LongformerTokenizer")
        .shaders("longformer", "global-window"),
    // LLaMA within a window
    row("mistral", "Mistral", llama::MARKS, llama::mistral)
        .models("e5-mistral, bge-en-icl, Linq-Embed")
        .mended_tokenizer(AS_IT_IS)
        .shaders("llama", "grouped"),
    // LLaMA within a window, if so configured, with mixtures of experts
    row("mixtral", "Mixtral", llama::MARKS, mixtral::read)
        .models("decoders of Mixtral")
        .mended_tokenizer(AS_IT_IS)
        .shaders("llama", "grouped"),
    // BERT with layers of fewer columns than the hidden state, several feed-forward parts in each, and words' vectors made
    // of those of three neighbours; a text's numbers are those that it has alone: in a batch of the reference's the last
    // word of a shorter text has the padding token for a neighbour; in float16 the weights are rounded to it, and without
    // norms all values are float32, as they leave its range
    row("mobilebert", "MobileBert", &["mobilebert.", "encoder.layer.0.bottleneck."], mobilebert::read)
        .models("mobilebert-uncased")
        .tokenizer("MobileBertTokenizer"),
    // norms before the parts of a layer, a gated feed-forward part, rotary positions; most layers attend within a
    // window
    row("modernbert", "ModernBert", &["layers.0.attn.Wqkv.", "model.layers.0.attn.Wqkv."], modernbert::read)
        .models("gte-modernbert-base, nomic's modernbert-embed, granite-embedding-english-r2")
        .always_tokenizer(AS_IT_IS)
        .shaders("modernbert", "windowed"),
    // biases of attention by distance, shared by all layers; padding token 1 and 32 buckets, as in the reference,
    // whatever the configuration says
    row(
        "mpnet",
        "MPNet",
        &["mpnet.", "encoder.relative_attention_bias.", "encoder.layer.0.attention.attn."],
        mpnet::read,
    )
    .models("all-mpnet-base-v2, multi-qa-mpnet")
    .tokenizer("MPNetTokenizer"),
    // as `t5`
    row("mt5", "MT5", t5::MARKS, |config| t5::read(config, "gated-gelu", Some(0)))
        .models("mT5")
        .tokenizer("T5Tokenizer")
        .decodes()
        .shaders("t5", "cross"),
    // `gte` with the keys of its own code, and its ntk scaling of the rotary positions
    row("new", "New", &["new.", "encoder.layer.0.attention.qkv_proj."], |config| gte::read(config, 10_000.0))
        .models("gte-base-en-v1.5, gte-large-en-v1.5, gte-multilingual-base"),
    // rotary positions in place of a table, a gated feed-forward part, products without biases; transformers' keys and
    // tensor names or those of the hub's own code; in v2 mixtures of experts, products with biases, and no gates
    row("nomic_bert", "NomicBert", &["nomic_bert.", "encoder.layers.0.attn.Wqkv."], nomic_bert::read)
        .models("nomic-embed-text-v1 and v1.5, nomic-embed-text-v2-moe, CodeRankEmbed")
        .tokenizer("BertTokenizer"),
    // LLaMA with norms after the parts, and of all heads of the queries and of the keys together
    row(
        "olmo2",
        "Olmo2",
        &["layers.0.post_feedforward_layernorm.", "model.layers.0.post_feedforward_layernorm."],
        olmo2::read,
    )
    .models("decoders of OLMo 2")
    .tokenizer(AS_IT_IS)
    .shaders("llama", "grouped"),
    // GPT-NeoX with separate projections and one norm for both parts of a layer
    row("phi", "Phi", phi::MARKS, phi::read)
        .models("decoders of Phi-1 to Phi-2")
        .tokenizer("GPT2Tokenizer")
        .shaders("llama", "grouped"),
    // LLaMA with joint products, rotary positions in a share of each head's columns and `longrope`
    row("phi3", "Phi3", phi3::MARKS, phi3::read)
        .models("decoders of Phi-3 and Phi-4-mini")
        .always_tokenizer(AS_IT_IS)
        .shaders("llama", "grouped"),
    // LLaMA with biases; a window in some layers
    row("qwen2", "Qwen2", llama::MARKS, llama::qwen2)
        .models("gte-Qwen2, stella")
        .always_tokenizer("Qwen2Tokenizer")
        .shaders("llama", "grouped"),
    // LLaMA with a norm of each head of the queries and the keys; with norms of the products (`q_proj.norm.weight`)
    // ternary matrices, as BitNet-embedding-0.6B
    row("qwen3", "Qwen3", llama::MARKS, qwen3::read)
        .models("Qwen3-Embedding, BitNet-embedding-0.6B")
        .tokenizer("Qwen2Tokenizer")
        .shaders("llama", "grouped"),
    // `qwen3` with mixtures of experts in all layers or some
    row("qwen3_moe", "Qwen3Moe", llama::MARKS, qwen3_moe::read)
        .models("decoders of Qwen3 with experts")
        .tokenizer("Qwen2Tokenizer")
        .shaders("llama", "grouped"),
    // positions counted from the padding token's id + 1, over the non-padding tokens
    row("roberta", "Roberta", &["roberta."], roberta::read)
        .models("all-distilroberta-v1, all-roberta-large-v1")
        .tokenizer("RobertaTokenizer"),
    // BERT with rotary positions of neighbouring columns in place of a table, embeddings of their own width and a
    // projection to the encoder's; RoFormerTokenizer splits texts by the dictionary of rjieba and is refused: models of
    // single characters name BertTokenizer
    row("roformer", "RoFormer", &["roformer.", "encoder.embed_positions."], roformer::read)
        .models("roformer_chinese_char_base")
        .tokenizer("RoFormerTokenizer"),
    // BERT whose products are of groups of columns; they are computed as whole matrices with zeros between the groups
    row(
        "squeezebert",
        "SqueezeBert",
        &["transformer.encoder.layers.0.post_attention.", "encoder.layers.0.post_attention."],
        squeezebert::read,
    )
    .models("squeezebert-uncased")
    .tokenizer("BertTokenizer"),
    // LLaMA with layer norms and rotary positions in a share of each head's columns; without norms of the heads
    row("stablelm", "StableLm", llama::MARKS, stablelm::read)
        .models("decoders of StableLM, but for stablelm-2-12b")
        .tokenizer(AS_IT_IS)
        .shaders("llama", "grouped"),
    // LLaMA with layer norms, biases, no gates, and a window
    row("starcoder2", "Starcoder2", starcoder2::MARKS, starcoder2::read)
        .models("decoders of StarCoder2")
        .tokenizer("GPT2Tokenizer")
        .shaders("llama", "grouped"),
    // no biases of products, norms by the root mean square before the parts of a layer, biases of attention by
    // distance, no limit of positions; in float16 the weights are rounded to it, and all values are float32, as they
    // may leave its range; the decoder, where a checkpoint holds it, is for
    // [`decode_states`](../guides/encoding.md#states-of-a-decoder)
    row("t5", "T5", t5::MARKS, |config| t5::read(config, "relu", None))
        .models("sentence-t5, gtr-t5")
        .tokenizer("T5Tokenizer")
        .decodes()
        .shaders("t5", "cross"),
    // T5 whose layers have biases of attention of their own
    row("umt5", "UMT5", t5::MARKS, umt5::read).models("umT5").tokenizer(AS_IT_IS).decodes().shaders("t5", "cross"),
    // as `roberta`; in the format of Jina's own code rotary positions in place of a table, and an adapter for each task
    row("xlm-roberta", "XLMRoberta", &["roberta."], roberta::read)
        .models("multilingual-e5, bge-m3, paraphrase-multilingual-mpnet-base-v2; jina-embeddings-v3")
        .tokenizer("XLMRobertaTokenizer"),
    // RoBERTa with a narrow part after each feed-forward part for the language of the texts, `default_language`
    row("xmod", "Xmod", &["roberta.", "encoder.layer.0.output.adapter_modules."], xmod::read)
        .models("xmod-base")
        .tokenizer("XLMRobertaTokenizer"),
];
