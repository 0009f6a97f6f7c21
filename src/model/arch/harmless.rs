//! Keys of config.json that change no embedding, whatever the architecture: training, generation, heads of other tasks,
//! and notes of the libraries.

const NAMES: &[&str] = &[
    "adapters",
    "architectures",
    "bad_words_ids",
    "begin_suppress_tokens",
    "chunk_size_feed_forward",
    "cross_attention_hidden_size",
    "diversity_penalty",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "generation_config",
    "gradient_checkpointing",
    "id2label",
    "label2id",
    "language",
    "length_penalty",
    "loss_function",
    "max_length",
    "min_length",
    "model_type",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sentence_transformers",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "xla_device",
];
const STARTS: &[&str] =
    &["_", "classifier_", "do_", "initializer_", "output_", "pooler_", "sbert_", "summary_", "tie_"];
const ENDS: &[&str] = &["_pdrop", "_token_id", "initializer", "use_flash_attn"];

/// Whether a key of this name changes no embedding.
pub(super) fn is_harmless(key: &str) -> bool {
    NAMES.contains(&key)
        || key.contains("dropout")
        || STARTS.iter().any(|start| key.starts_with(start))
        || ENDS.iter().any(|end| key.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_harmless_and_sizes_are_not() {
        for key in ["_name_or_path", "attention_probs_dropout_prob", "resid_pdrop", "eos_token_id", "torch_dtype"] {
            assert!(is_harmless(key), "{key}");
        }
        for key in ["auto_map", "feed_forward_type", "num_experts", "hidden_size", "lora_adaptations"] {
            assert!(!is_harmless(key), "{key}");
        }
        assert!(NAMES.is_sorted());
    }
}
