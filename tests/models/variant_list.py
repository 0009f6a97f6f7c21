"""The list of checkpoint variants; `fixtures/variants.npz` holds what sentence-transformers answers for each."""

import numpy as np

from .variants import Checkpoint, base, dense, layer_norm_module, pooling, sized, variant, weighted_layers

POOLING_MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
PROMPTS = {"query": "search query: ", "passage": "a page of text "}
PROMPT_CALLS = {
    "plain": {},
    "named": {"prompt_name": "query"},
    "given": {"prompt": "Represent this: "},
    "empty": {"prompt": ""},
    "query": {"method": "encode_query"},
    "document": {"method": "encode_document"},
    "query_named": {"method": "encode_query", "prompt_name": "passage"},
}


def with_modules(*modules) -> Checkpoint:
    checkpoint = base()
    checkpoint.modules = list(modules)
    return checkpoint


def with_layers(start: int, recorded: bool, mode: str) -> Checkpoint:
    """Token vectors from the hidden states from `start` on; unchanged where the encoder does not record these."""
    checkpoint = with_modules(weighted_layers(start, 2, 23), pooling(mode))
    checkpoint.config |= {"output_hidden_states": recorded}
    return checkpoint


def with_config(**changes) -> Checkpoint:
    checkpoint = base()
    checkpoint.config |= changes
    return checkpoint


def stored(storage: str) -> Checkpoint:
    checkpoint = base()
    checkpoint.storage = storage
    checkpoint.config["dtype"] = {"F16": "float16", "BF16": "bfloat16"}[storage]
    return checkpoint


def sharded() -> Checkpoint:
    checkpoint = base()
    checkpoint.shards = 3
    return checkpoint


def legacy_names() -> Checkpoint:
    """As early BERT checkpoints: a prefix, gamma and beta, a pre-training head and a buffer of positions."""
    checkpoint = base()
    random = np.random.RandomState(5)
    old = {}
    for name, array in checkpoint.tensors.items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        old[f"bert.{name}"] = array
    old["bert.embeddings.position_ids"] = np.arange(64, dtype=np.int64)[None]
    old["bert.pooler.dense.weight"] = random.standard_normal((32, 32)).astype(np.float32)
    old["bert.pooler.dense.bias"] = random.standard_normal(32).astype(np.float32)
    old["cls.predictions.bias"] = random.standard_normal(checkpoint.config["vocab_size"]).astype(np.float32)
    old["cls.predictions.transform.dense.weight"] = random.standard_normal((32, 32)).astype(np.float32)
    old["cls.predictions.transform.dense.bias"] = random.standard_normal(32).astype(np.float32)
    old["cls.predictions.transform.LayerNorm.gamma"] = random.standard_normal(32).astype(np.float32)
    old["cls.predictions.transform.LayerNorm.beta"] = random.standard_normal(32).astype(np.float32)
    old["cls.seq_relationship.weight"] = random.standard_normal((2, 32)).astype(np.float32)
    old["cls.seq_relationship.bias"] = random.standard_normal(2).astype(np.float32)
    checkpoint.tensors = old
    checkpoint.config["architectures"] = ["BertForPreTraining"]
    return checkpoint


def old_pooling(*chosen: str) -> Checkpoint:
    """The boolean keys that every checkpoint before version 5.4 has."""
    keys = ["cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"]
    flags = {f"pooling_mode_{key}": key in chosen for key in keys}
    return with_modules(("Pooling", {"word_embedding_dimension": 32} | flags, {}))


def prompted(mode, include: bool, default: str | None = None) -> Checkpoint:
    checkpoint = with_modules(pooling(mode, include_prompt=include))
    checkpoint.settings = {"prompts": PROMPTS, "default_prompt_name": default}
    return checkpoint


def bare(transformer: dict | None) -> Checkpoint:
    """A plain BERT folder: no modules.json."""
    checkpoint = base()
    checkpoint.modules = None
    checkpoint.transformer = transformer
    return checkpoint


def limited(model: int | None, tokenizer: int) -> Checkpoint:
    """Where the limit comes from: sentence_bert_config.json, the tokenizer's, or the position table (64)."""
    checkpoint = base()
    checkpoint.transformer = {} if model is None else {"max_seq_length": model}
    checkpoint.tokenizer_limit = tokenizer
    return checkpoint


def cased(lower: bool) -> Checkpoint:
    """A tokenizer that keeps case; `lower` asks for lower case in sentence_bert_config.json."""
    checkpoint = base()
    checkpoint.normalizer = {"lowercase": False, "strip_accents": False}
    checkpoint.transformer = {"max_seq_length": 48, "do_lower_case": lower}
    return checkpoint


variant("base", base)
variant("no_modules", lambda: bare(None))
variant("no_modules_limit", lambda: bare({"max_seq_length": 20, "do_lower_case": False}))
variant("limit_of_model", lambda: limited(20, 512))
variant("limit_of_tokenizer", lambda: limited(None, 30))
variant("limit_of_positions", lambda: limited(None, 512))
variant("limit_two", lambda: limited(20, 30))
variant("limit_two_reversed", lambda: limited(30, 20))
variant("cased", lambda: cased(False))
variant("cased_lowered", lambda: cased(True))

for mode in POOLING_MODES:
    variant(f"pooling_{mode}", lambda mode=mode: with_modules(pooling(mode)))
    variant(
        f"prompt_excluded_{mode}",
        lambda mode=mode: prompted(mode, False),
        {label: PROMPT_CALLS[label] for label in ("plain", "named", "given")},
    )
variant("pooling_all", lambda: with_modules(pooling(list(POOLING_MODES))))
variant("pooling_reordered", lambda: with_modules(pooling(["mean", "cls"])))
variant("pooling_old_cls", lambda: old_pooling("cls_token"))
variant("pooling_old_two", lambda: old_pooling("mean_tokens", "cls_token"))
variant(
    "pooling_old_all",
    lambda: old_pooling(
        "cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"
    ),
)
variant("pooling_old_none", lambda: old_pooling())
variant("prompt_included", lambda: prompted("mean", True), PROMPT_CALLS)
variant("prompt_default", lambda: prompted("mean", True, "passage"), PROMPT_CALLS)
variant("prompt_default_excluded", lambda: prompted(["cls", "mean"], False, "query"), PROMPT_CALLS)

for name in ("Tanh", "Identity", "ReLU", "GELU", "SiLU"):
    variant(f"dense_{name.lower()}", lambda name=name: with_modules(pooling("mean"), dense(name, 32, 24, 11)))
variant("dense_wider", lambda: with_modules(pooling("cls"), dense("Tanh", 32, 70, 12)))
variant("dense_no_bias", lambda: with_modules(pooling("mean"), dense("Identity", 32, 16, 13, bias=False)))
variant("dense_one", lambda: with_modules(pooling("mean"), dense("Identity", 32, 1, 14)))
variant(
    "dense_two",
    lambda: with_modules(
        pooling(["cls", "max"]), dense("GELU", 64, 48, 15), dense("Identity", 48, 32, 16), ("Normalize", {}, {})
    ),
)
variant("dense_residual", lambda: with_modules(pooling("mean"), dense("Tanh", 32, 32, 17, residual=True)))
variant("dense_residual_projected", lambda: with_modules(pooling("mean"), dense("Tanh", 32, 24, 18, residual=True)))
OF_TOKENS = {"module_input_name": "token_embeddings"}
variant("dense_of_tokens", lambda: with_modules(dense("GELU", 32, 24, 22, **OF_TOKENS), pooling("max", width=24)))
variant(
    "dense_of_tokens_residual",
    lambda: with_modules(dense("Tanh", 32, 32, 17, residual=True, **OF_TOKENS), pooling("mean"), ("Normalize", {}, {})),
)
variant("normalize_of_tokens", lambda: with_modules(("Normalize", OF_TOKENS, {}), pooling(["mean", "cls"])))
variant("layers_all", lambda: with_layers(0, True, "mean"))
variant("layers_last", lambda: with_layers(1, True, "cls"))
variant("layers_unrecorded", lambda: with_layers(1, False, "mean"))
variant("normalize", lambda: with_modules(pooling("mean"), ("Normalize", {}, {})))
variant("layer_norm", lambda: with_modules(pooling("mean"), layer_norm_module(32, 19)))
variant("dropout", lambda: with_modules(pooling("mean"), ("Dropout", {"dropout": 0.3}, {})))
variant(
    "every_module",
    lambda: with_modules(
        pooling("mean"),
        ("Dropout", {"dropout": 0.3}, {}),
        dense("SiLU", 32, 40, 20),
        layer_norm_module(40, 21),
        ("Normalize", {}, {}),
    ),
)

for name in ("relu", "gelu_new", "gelu_pytorch_tanh", "silu"):
    variant(f"hidden_{name}", lambda name=name: with_config(hidden_act=name))
variant("eps", lambda: with_config(layer_norm_eps=0.05))
variant("float16", lambda: stored("F16"))
variant("bfloat16", lambda: stored("BF16"))
variant("sharded", sharded)
variant("legacy_names", legacy_names)
variant(
    "odd_sizes", lambda: sized(31, hidden_size=36, num_attention_heads=3, intermediate_size=50, num_hidden_layers=3)
)
variant("one_type", lambda: sized(32, type_vocab_size=1))
variant("head_64", lambda: sized(33, hidden_size=128, num_attention_heads=2, intermediate_size=192))
variant(
    "head_8_one_layer",
    lambda: sized(34, hidden_size=40, num_attention_heads=5, intermediate_size=33, num_hidden_layers=1),
)
variant("head_1", lambda: sized(35, hidden_size=5, num_attention_heads=5, intermediate_size=7))
