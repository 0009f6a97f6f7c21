//! What each keyword argument does.

/// What an argument does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It is passed on to the reader, which says what is wrong with its value.
    Read,
    /// No number depends on it.
    Nothing,
    /// It has an effect that is not computed, for this reason.
    Refused(&'static str),
    /// The reference fails whatever its value, for this reason.
    Never(&'static str),
}

/// The arguments of one reader.
pub(super) struct Kind {
    pub name: &'static str,
    /// The name in older versions.
    pub older: &'static str,
    /// Names, separated by spaces, and what they do.
    pub rows: &'static [(&'static str, Effect)],
    /// Whether the reader takes keys of any name.
    pub open: bool,
    /// Whether the reference fails for keys that it does not know.
    pub strict: bool,
}

/// In the order of the fields of `Arguments`.
pub(super) const KINDS: [Kind; 3] = [
    Kind { name: "model_kwargs", older: "model_args", rows: MODEL, open: false, strict: true },
    Kind { name: "processor_kwargs", older: "tokenizer_args", rows: PROCESSOR, open: false, strict: false },
    Kind { name: "config_kwargs", older: "config_args", rows: CONFIG, open: true, strict: false },
];

/// The loading class sets these, whatever a folder's settings say.
pub(super) const OF_HUB: [&str; 6] =
    ["subfolder", "token", "cache_dir", "revision", "local_files_only", "trust_remote_code"];

/// Keys that the reference's configurations have only if config.json states them, so that nothing replaces them otherwise.
pub(super) const ONLY_IF_STATED: [&str; 1] = ["is_causal"];

/// Names that stand for an architecture's own names, which follow.
pub(super) const OTHER_NAMES: &[&[&str]] = &[
    &["torch_dtype", "dtype"],
    &["hidden_size", "d_model", "dim", "n_embd"],
    &["num_hidden_layers", "num_layers", "n_layers", "n_layer"],
    &["num_attention_heads", "num_heads", "n_heads", "n_head"],
    &["max_position_embeddings", "n_positions"],
    &["head_dim", "d_kv"],
];

const LOCATES: &str = "token cache_dir local_files_only force_download proxies trust_remote_code code_revision";
const OTHER_PLACE: Effect =
    Effect::Refused("all files are read from one folder, of one revision: name those of the model");
const GGUF: Effect =
    Effect::Refused("GGUF files are not read: fetch the safetensors from which the file was converted");
const OTHER_TOKENIZER: Effect =
    Effect::Refused("the tokenizer is that of the folder: copy its files into a copy of the model's folder");
const QUANTIZED: Effect = Effect::Refused(
    "the weights are quantised by `dtype=\"int8\"`, or by `grilly.quant.convert` of the loaded model; a checkpoint states its own \
     quantisation in config.json",
);

const MODEL: &[(&str, Effect)] = &[
    ("dtype torch_dtype device_map default_task use_safetensors", Effect::Read),
    (LOCATES, Effect::Nothing),
    (
        "attn_implementation experts_implementation add_pooling_layer low_cpu_mem_usage weights_only disable_mmap \
         max_memory offload_folder offload_buffers offload_state_dict use_cache generation_config adapter_kwargs \
         adapter_name use_kernels allow_all_kernels kernel_config tp_plan tp_size distributed_config device_mesh \
         ignore_mismatched_sizes tqdm_class",
        Effect::Nothing,
    ),
    ("subfolder revision", OTHER_PLACE),
    ("gguf_file", GGUF),
    ("quantization_config load_in_8bit load_in_4bit", QUANTIZED),
    (
        "variant",
        Effect::Refused(
            "the weights are in model.safetensors or pytorch_model.bin: rename the file in a copy of the folder",
        ),
    ),
    (
        "state_dict key_mapping fusion_config",
        Effect::Refused("the tensors are those of the files: save the model as it shall be with `save_pretrained`"),
    ),
    ("output_loading_info config", Effect::Refused("it is for transformers' own readers: leave it out")),
];

const PROCESSOR: &[(&str, Effect)] = &[
    ("model_max_length max_len padding_side truncation_side model_input_names split_special_tokens", Effect::Read),
    ("add_bos_token add_eos_token *_token extra_special_tokens additional_special_tokens", Effect::Read),
    ("added_tokens_decoder chat_template fix_mistral_regex", Effect::Read),
    (
        "do_lower_case strip_accents tokenize_chinese_chars keep_accents add_prefix_space split_by_punct unk_id extra_ids \
         legacy",
        Effect::Read,
    ),
    (LOCATES, Effect::Nothing),
    (
        "use_fast from_slow clean_up_tokenization_spaces \
         clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output errors trim_offsets remove_space \
         do_basic_tokenize never_split wordpieces_prefix use_default_system_prompt sp_model_kwargs verbose name_or_path \
         processor_class auto_map response_template response_schema chat_control_tokens backend \
         files_loaded max_length stride truncation_strategy pad_to_multiple_of pad_token_type_id pad_type_id task \
         model_specific_special_tokens is_local special_tokens_map_file added_tokens_file return_token_type_ids \
         return_attention_mask padding truncation device device_map dtype torch_dtype attn_implementation use_cache",
        Effect::Nothing,
    ),
    ("subfolder revision", OTHER_PLACE),
    ("gguf_file", GGUF),
    (
        "tokenizer_type tokenizer_class tokenizer_file vocab_file merges_file spm_file vocab merges tokenizer_object post_processor \
         tokenizer_truncation tokenizer_padding init_inputs mistral_format fast_tokenizer_files",
        OTHER_TOKENIZER,
    ),
    ("config", Effect::Refused("it is for transformers' own readers: leave it out")),
    (
        "add_special_tokens add_tokens apply_chat_template batch_decode decode encode pad tokenize",
        Effect::Never("it is the name of a tokenizer's method, and the reference fails for it, too: leave it out"),
    ),
];

const CONFIG: &[(&str, Effect)] = &[
    (LOCATES, Effect::Nothing),
    (
        "use_cache return_dict output_attentions attn_implementation experts_implementation name_or_path",
        Effect::Nothing,
    ),
    // The reference's configurations do not have these, but for what it made of them when it read config.json.
    (
        "rope_theta partial_rotary_factor global_rope_theta local_rope_theta rotary_pct rotary_emb_base \
         rope_local_base_freq",
        Effect::Nothing,
    ),
    ("rope_parameters rope_scaling", Effect::Refused("change config.json in a copy of the model's folder")),
    ("subfolder revision", OTHER_PLACE),
    ("gguf_file", GGUF),
    ("quantization_config", QUANTIZED),
    (
        "model_type auto_map",
        Effect::Refused(
            "config.json says which architecture the weights are of: change it in a copy of the model's folder",
        ),
    ),
    ("return_unused_kwargs", Effect::Refused("it is for transformers' own readers: leave it out")),
];
