"""Checkpoints of the architectures beside BERT that cannot be used: errors name the file, the key and the remedy."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from models import families
from models.golden import same_bits
from models.spoil import change_json, rewrite

from grilly import VulkanSentenceTransformer
from grilly.errors import ModelFormatError, UnsupportedError, WeightsError

BIASES = "mpnet.encoder.relative_attention_bias.weight"


@pytest.fixture
def family(tmp_path) -> Callable[[str], Path]:
    """`family(name)`: a checkpoint of families.json, to be spoiled."""
    return lambda name: families.build(name, tmp_path)


def load(folder: Path) -> None:
    VulkanSentenceTransformer(folder, device="cpu").close()


def message(folder: Path, error: type[Exception], *parts: str) -> str:
    """What loading says, which must hold each of `parts`."""
    with pytest.raises(error) as caught:
        load(folder)
    assert type(caught.value) is error
    text = str(caught.value)
    assert str(folder) in text
    for part in parts:
        assert part in text
    return text


@pytest.mark.parametrize("name", families.table())
def test_the_copy_itself_is_fine(family, name):
    load(family(name))


# --------------------------------------------------------------------------------------------------- mpnet's distances


def test_a_missing_bias_table(family):
    folder = family("mpnet")
    rewrite(folder, lambda tensors: tensors.pop(BIASES))
    message(folder, WeightsError, "model.safetensors", f"missing {BIASES.removeprefix('mpnet.')} [40, 3]", "fetch")


def test_a_bias_table_of_other_rows_than_the_configuration_says(family):
    folder = family("mpnet")
    rewrite(folder, lambda tensors: tensors.update({BIASES: tensors[BIASES][:20]}))
    message(folder, WeightsError, "model.safetensors", "relative_attention_bias.weight has shape [20, 3]", "[40, 3]")


@pytest.mark.parametrize("buckets", [31, 20, 0, -1, "32", 32.5])
def test_fewer_buckets_than_the_reference_uses(family, buckets):
    folder = family("mpnet")
    rows = buckets if buckets in (31, 20) else 40
    rewrite(folder, lambda tensors: tensors.update({BIASES: tensors[BIASES][:rows]}))
    change_json(folder / "config.json", relative_attention_num_buckets=buckets)
    message(folder, ModelFormatError, "config.json", f"relative_attention_num_buckets is {json.dumps(buckets)}", "32")


def test_rows_beyond_the_32_buckets_are_not_used(family):
    folder = family("mpnet")
    texts = ["a dog and the time of a year", "way " * 200]
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        expected = model.encode(texts)
    rewrite(folder, lambda tensors: tensors.update({BIASES: tensors[BIASES][:32]}))
    change_json(folder / "config.json", relative_attention_num_buckets=...)  # whose default is 32
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        assert same_bits(model.encode(texts), expected)


# ------------------------------------------------------------------------------------ positions counted from pad id + 1


@pytest.mark.parametrize("name", ["roberta", "xlm-roberta", "camembert"])
@pytest.mark.parametrize(
    "pad, said",
    [
        (-1, "pad_token_id is -1"),
        (None, "pad_token_id is null"),
        (1.5, "pad_token_id is 1.5"),
        ("1", 'pad_token_id is "1"'),
        (600, "vocab_size is 600"),
        (2**40, "pad_token_id is 1099511627776"),
        (42, "max_position_embeddings is 42"),  # outside the table of positions
        (41, "max_position_embeddings is 42"),  # its last row, so that no token has one
    ],
)
def test_an_impossible_pad(family, name, pad, said):
    folder = family(name)
    change_json(folder / "config.json", pad_token_id=pad)
    text = message(folder, ModelFormatError, "config.json", said)
    assert "padding token" in text or "expected" in text


def test_the_pad_that_a_configuration_need_not_name(family):
    folder = family("roberta")
    texts = ["a <pad> dog", "the time"]
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        expected = model.encode(texts)
    change_json(folder / "config.json", pad_token_id=...)
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        assert same_bits(model.encode(texts), expected)


@pytest.mark.parametrize("name", ["roberta", "roberta-pad-3", "xlm-roberta", "camembert", "mpnet"])
def test_no_room_for_a_position(family, name):
    """The message says how many rows the table needs at the least."""
    folder = family(name)
    pad = 3 if name == "roberta-pad-3" else 1
    change_json(folder / "config.json", max_position_embeddings=pad + 1)
    message(folder, ModelFormatError, "config.json", f"max_position_embeddings is {pad + 1}", f"at least {pad + 2}")


def test_a_limit_beyond_the_positions_is_lowered(family, caplog):
    """sentence-transformers would look up rows that the table does not have."""
    folder = family("roberta")
    texts = ["way " * 100]
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        expected = model.encode(texts)
    change_json(folder / "tokenizer_config.json", model_max_length=512)
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        assert model.max_seq_length == 40
        assert same_bits(model.encode(texts), expected)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("roberta", "max_position_embeddings"),
        ("llama", "max_position_embeddings"),
        ("jina-bert", "max_position_embeddings"),
        ("nomic_bert-hub", "n_positions"),
        ("gpt2", "n_positions"),
    ],
)
def test_positions_beyond_any_model(family, name, key):
    """Refused before tables of that size are computed."""
    folder = family(name)
    change_json(folder / "config.json", **{key: 2**28})
    message(folder, ModelFormatError, "config.json", f"{key} is 268435456, at most 1048576", "set it to the tokens")


# ------------------------------------------------------------------------------------------- tensors of another family


@pytest.mark.parametrize(
    "name, said",
    [
        ("roberta", "roberta"),
        ("camembert", "camembert"),
        ("distilbert", "distilbert"),
        ("distilbert-relu", "distilbert"),
        ("mpnet", "mpnet"),
        ("mpnet-matrix", "mpnet"),
        ("electra", "electra"),
        ("albert", "albert"),
        ("albert-matrix", "albert"),
        ("t5", "mt5 or t5"),
        ("mt5", "mt5 or t5"),
    ],
)
def test_tensors_of_another_family_under_bert(family, checkpoint, tmp_path, name, said):
    folder = Path(shutil.copytree(checkpoint("base"), tmp_path / "bert"))
    shutil.copy(family(name) / "model.safetensors", folder)
    message(folder, WeightsError, "model.safetensors", f"{said}", 'model_type in config.json is "bert"', "missing")


@pytest.mark.parametrize("name, said", [("roberta", "roberta"), ("xlm-roberta-matrix", "roberta"), ("mpnet", "mpnet")])
def test_tensors_of_another_family_under_electra(family, name, said):
    folder = family("electra")
    shutil.copy(family(name) / "model.safetensors", folder)
    message(folder, WeightsError, said, 'model_type in config.json is "electra"')


def test_tensors_of_bert_under_mpnet(family, checkpoint):
    folder = family("mpnet-matrix")
    shutil.copy(checkpoint("legacy_names") / "model.safetensors", folder)
    message(folder, WeightsError, "tensors of bert", 'model_type in config.json is "mpnet"', "missing")


# ----------------------------------------------------------------------------------------------- keys of one family


def test_the_other_name_of_the_words_of_t5(family):
    """Published checkpoints have either name, or both for one tensor."""
    folder = family("mt5")
    texts = ["a dog and the time of a year", ""]
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        expected = model.encode(texts)
    other = "encoder.embed_tokens.weight"
    for edit in (
        lambda tensors: tensors.update({other: tensors["shared.weight"]}),
        lambda tensors: tensors.pop("shared.weight"),
    ):
        rewrite(folder, edit)
        with VulkanSentenceTransformer(folder, device="cpu") as model:
            assert same_bits(model.encode(texts), expected)
    rewrite(folder, lambda tensors: tensors.pop(other))
    message(folder, WeightsError, "model.safetensors", "missing shared.weight [600, 36]")


@pytest.mark.parametrize("key", ["d_model", "d_ff", "num_heads", "num_layers", "vocab_size"])
def test_missing_keys_of_t5(family, key):
    folder = family("t5")
    change_json(folder / "config.json", **{key: ...})
    message(folder, ModelFormatError, "config.json", f"{key} is missing")


@pytest.mark.parametrize("key", ["dim", "n_layers", "n_heads", "hidden_dim", "vocab_size", "max_position_embeddings"])
def test_missing_keys_of_distilbert(family, key):
    folder = family("distilbert")
    change_json(folder / "config.json", **{key: ...})
    message(folder, ModelFormatError, "config.json", f"{key} is missing")


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"dim": 0}, "dim is 0"),
        ({"dim": 35}, "dim 35 is not a multiple of n_heads 3"),
        ({"n_heads": 5}, "dim 36 is not a multiple of n_heads 5"),
        ({"n_layers": -1}, "n_layers is -1"),
        ({"hidden_dim": "52"}, 'hidden_dim is "52"'),
    ],
)
def test_absurd_keys_of_distilbert(family, changes, said):
    folder = family("distilbert")
    change_json(folder / "config.json", **changes)
    message(folder, ModelFormatError, "config.json", said)


def test_an_unknown_activation_of_distilbert(family):
    folder = family("distilbert")
    change_json(folder / "config.json", activation="wavy")
    message(folder, UnsupportedError, "config.json", 'activation "wavy"', "known are gelu")


def test_electra_without_a_width_of_embeddings_means_128(family):
    folder = family("electra")
    change_json(folder / "config.json", embedding_size=...)
    message(folder, WeightsError, "word_embeddings.weight has shape [600, 20], expected [600, 128]")


@pytest.mark.parametrize("size", [0, -1, "20", 20.5])
def test_an_absurd_width_of_embeddings(family, size):
    folder = family("electra")
    change_json(folder / "config.json", embedding_size=size)
    message(folder, ModelFormatError, "config.json", f"embedding_size is {json.dumps(size)}")


def test_a_missing_projection_of_embeddings(family):
    folder = family("electra")
    rewrite(folder, lambda tensors: tensors.pop("electra.embeddings_project.weight"))
    message(folder, WeightsError, "model.safetensors", "missing embeddings_project.weight [36, 20]")


def test_a_projection_that_equal_widths_do_not_have(family):
    folder = family("electra-equal")
    extra = {"embeddings_project.weight": np.eye(36, dtype=np.float32)}
    rewrite(folder, lambda tensors: tensors.update(extra))
    message(folder, WeightsError, "model.safetensors", "unexpected embeddings_project.weight")


def test_segments_that_the_configuration_does_not_have(family):
    folder = family("roberta")
    change_json(folder / "config.json", type_vocab_size=2)
    message(folder, WeightsError, "token_type_embeddings.weight has shape [1, 36], expected [2, 36]")


# ------------------------------------------------------------------------------------------ families that look alike


@pytest.mark.parametrize(
    ("name", "changes", "parts"),
    [
        # jina-embeddings-v2 calls itself bert.
        (
            "roberta",
            {"auto_map": {"AutoModel": "jinaai/jina-bert-implementation--modeling_bert.JinaBertModel"}},
            ("auto_map", "JinaBertModel", "take auto_map out"),
        ),
        ("roberta", {"position_embedding_type": "alibi"}, ("position_embedding_type", 'only "absolute" is known')),
        ("roberta", {"is_causal": True}, ("is_causal true", "only false is known")),
        ("gpt2", {"scale_attn_weights": False}, ("scale_attn_weights false", "only true is known")),
        ("qwen2", {"auto_map": {"AutoModel": "modeling_qwen.Qwen2Model"}}, ("modeling_qwen.Qwen2Model", "is_causal")),
    ],
)
def test_what_is_not_computed_is_refused_by_name(family, name, changes, parts):
    folder = family(name)
    change_json(folder / "config.json", **changes)
    assert "remove it" not in message(folder, UnsupportedError, "config.json", *parts)


# Of other families or of nothing: transformers reads none of these keys for the family, and a checkpoint of the other
# family is told by the marks of the rows above or by its tensors.
FOREIGN = {
    "roberta": {
        "feed_forward_type": "geglu",
        "rotary_pct": 0.5,
        "num_key_value_heads": 1,
        "pruned_heads": {"0": [1]},
    },
    "modernbert": {"num_experts": 8, "layer_norm_eps": 0.5, "tie_weights_": True},
    "gpt2": {"rms_norm_eps": 0.5, "n_ctx": 3, "num_experts": 8},
    "xlm-roberta": {"rotary_emb_dim": 12, "rotary_pct": 0.5},
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_key_that_the_reference_does_not_read_changes_nothing(family, name, caplog):
    folder = family(name)
    texts = ["a dog and the time of a year", "way"]
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        expected = model.encode(texts)
    change_json(
        folder / "config.json", **FOREIGN[name], neftune_noise_alpha=5, trust_remote_code=True, max_seq_length=7
    )
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "grilly"), VulkanSentenceTransformer(folder, device="cpu") as model:
        assert same_bits(model.encode(texts), expected)
    said = [record for record in caplog.records if "keys that are not read" in record.getMessage()]
    assert [record.levelname for record in said] == ["DEBUG"]
    assert all(key in said[0].getMessage() for key in (*FOREIGN[name], "neftune_noise_alpha", "max_seq_length"))
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_a_misspelt_key_is_warned_of(family, caplog):
    folder = family("roberta")
    change_json(folder / "config.json", layer_norm_epz=0.5, hidden_acts="relu")
    load(folder)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == 2
    for key, near in (("layer_norm_epz", "layer_norm_eps"), ("hidden_acts", "hidden_act")):
        assert any(f"config.json: {key} is not read; {near} is" in text for text in said)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("gpt2", {"n_embd": ..., "hidden_size": 36, "n_layer": 1, "num_hidden_layers": 2, "n_head": ...}),
        ("distilbert", {"dim": ..., "hidden_size": 36, "n_layers": ..., "num_hidden_layers": 2, "n_heads": 9}),
        ("t5", {"d_kv": ..., "head_dim": 10, "num_heads": ...}),
        ("gpt_neo", {"num_layers": ..., "num_hidden_layers": 3, "num_heads": ...}),
    ],
)
def test_sizes_under_the_other_names_of_the_reference(family, name, changes):
    """Its `attribute_map`: such a name counts before the key's own."""
    folder = family(name)
    texts = ["a dog and the time of a year", "way"]
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        expected = model.encode(texts)
    change_json(folder / "config.json", num_attention_heads=3, **changes)
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        assert same_bits(model.encode(texts), expected)


# What the published configurations have beside the sizes of the `model_type` that they give.
JINA_V2 = {
    "architectures": ["JinaBertForMaskedLM"],
    "auto_map": {"AutoModel": "jinaai/jina-bert-v2-qk-post-norm--modeling_bert.JinaBertModel"},
    "emb_pooler": "mean",
    "feed_forward_type": "geglu",
    "position_embedding_type": "alibi",
}
JINA_V3 = {
    "architectures": ["XLMRobertaModel"],
    "auto_map": {"AutoModel": "jinaai/xlm-roberta-flash-implementation--modeling_lora.XLMRobertaLoRA"},
    "emb_pooler": None,
    "load_trained_adapters": True,
    "lora_adaptations": ["retrieval.query", "retrieval.passage", "separation", "classification", "text-matching"],
    "lora_alpha": 1,
    "lora_dropout_p": 0.0,
    "lora_main_params_trainable": False,
    "lora_rank": 4,
    "matryoshka_dimensions": [32, 64],
    "position_embedding_type": "rotary",
    "rotary_emb_base": 20000.0,
    "task_instructions": {"retrieval.query": "Represent the query for retrieving evidence documents: "},
    "truncate_dim": None,
    "use_flash_attn": True,
    "use_reentrant": False,
}


@pytest.mark.parametrize(
    ("name", "published", "marks"),
    [
        # Each of the marks alone is enough, whichever of the others a copy has lost. `feed_forward_type` is none: the
        # reference reads it of no other family, and the tensors tell which form they have.
        ("roberta", JINA_V2, ["auto_map", "position_embedding_type"]),
        ("qwen3", {"quantization_config": {"quant_method": "gptq"}}, ["quantization_config"]),
    ],
)
def test_a_published_look_alike(family, name, published, marks):
    folder = family(name)
    config = folder / "config.json"
    change_json(config, **published)
    text = message(folder, UnsupportedError, "config.json")
    assert any(key in text for key in published)
    for mark in marks:
        shutil.rmtree(folder)
        folder = family(name)
        change_json(config, **{mark: published[mark]})
        message(folder, UnsupportedError, "config.json", mark)


@pytest.mark.parametrize("marks", [list(JINA_V3), ["auto_map"], ["rotary_emb_base"], ["position_embedding_type"]])
def test_jina_v3_under_the_name_of_xlm_roberta(family, marks):
    """Each of its marks is enough; the tensors tell that the checkpoint is another's."""
    folder = family("xlm-roberta")
    change_json(folder / "config.json", **{mark: JINA_V3[mark] for mark in marks})
    missing = "missing encoder.layers.0.mixer.Wqkv.weight [108, 36]"
    text = message(folder, WeightsError, missing, "unexpected encoder.layer.0.attention.self.query.weight")
    assert ("lora_A" in text) == (len(marks) > 1)


@pytest.mark.parametrize("mark", ["auto_map", "lora_adaptations", "rotary_emb_base", "position_embedding_type"])
def test_jina_v3_without_one_of_its_marks(family, mark):
    folder = family("jina-lora")
    change_json(folder / "config.json", **{mark: ...})
    if mark == "lora_adaptations":
        message(folder, UnsupportedError, "modules.json", "custom_st.Transformer")
    else:
        load(folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"load_trained_adapters": False}, "load_trained_adapters false: only true is known"),
        ({"position_embedding_type": "alibi"}, 'position_embedding_type "alibi": only "rotary" is known'),
        ({"rotary_emb_interleaved": True}, "rotary_emb_interleaved true: only false is known"),
    ],
)
def test_variants_of_jina_v3(family, changes, said):
    folder = family("jina-lora")
    change_json(folder / "config.json", **changes)
    message(folder, UnsupportedError, "config.json", said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"lora_rank": 1000}, "lora_rank is 1000, expected a whole number from 1 to 256"),
        ({"lora_alpha": "much"}, 'lora_alpha is "much", expected a number'),
        ({"lora_adaptations": "retrieval.query"}, 'lora_adaptations is "retrieval.query", expected a list of strings'),
        ({"lora_adaptations": []}, "lora_adaptations is empty"),
    ],
)
def test_absurd_adapters(family, changes, said):
    folder = family("jina-lora")
    change_json(folder / "config.json", **changes)
    message(folder, ModelFormatError, "config.json", said)


@pytest.mark.parametrize("name", ["llama-matrix", "gemma2-matrix", "qwen2-matrix"])
def test_norms_of_products_under_another_configuration(family, name):
    """Of BitNet's embeddings, whose configurations are those of two other families."""
    folder = family(name)
    shapes = families.table()[name]["tensors"]
    products = [(name, shape) for name, shape in shapes.items() if name.endswith("_proj.weight")]
    norms = {name.replace("weight", "norm.weight"): np.ones(shape[1], np.float32) for name, shape in products}
    assert norms and len(norms) % 7 == 0
    rewrite(folder, lambda tensors: tensors.update(norms))
    unexpected = [f"unexpected {name.removeprefix('model.')} [{array.size}]" for name, array in norms.items()]
    kind = name.removesuffix("-matrix")
    message(folder, WeightsError, f"config.json describes a {kind} model with other tensors", *unexpected)


def test_packed_products_without_packed_tensors(family):
    """A method that packs the products, and tensors that are numbers."""
    folder = family("qwen3-matrix")
    change_json(folder / "config.json", quantization_config={"quant_method": "bitnet"})
    name = "layers.0.self_attn.q_proj.weight"
    parts = [f"{name} has shape [128, 64], expected [32, 64]", f"missing {name}_scale [1]"]
    message(folder, WeightsError, *parts)


def test_norms_of_queries_and_keys_under_jina_v2(family):
    """jina-embeddings-v2-base-de and others: the configuration is that of -base-en, the code another."""
    folder = family("jina-bert")
    change_json(folder / "config.json", **JINA_V2)
    load(folder)
    name = "encoder.layer.0.attention.self.layer_norm_q.weight"
    rewrite(folder, lambda tensors: tensors.update({name: np.ones(36, np.float32)}))
    message(folder, WeightsError, "model.safetensors", f"unexpected {name} [36]")


@pytest.mark.parametrize(
    "changes", [{"auto_map": None}, {"lora_rank": False}, {"_name_or_path": "x", "hidden_dropout": 0.3}]
)
def test_keys_that_change_nothing_are_read_over(family, changes):
    folder = family("roberta")
    change_json(folder / "config.json", **changes)
    load(folder)


@pytest.mark.parametrize("kind", ["spiral", 3])
def test_an_unknown_rope_scaling(family, kind):
    folder = family("modernbert")
    parameters = json.loads((folder / "config.json").read_text(encoding="utf-8"))["rope_parameters"]
    parameters["full_attention"]["rope_type"] = kind
    change_json(folder / "config.json", rope_parameters=parameters)
    message(folder, ModelFormatError, "config.json", "rope_parameters: full_attention: rope_type is")


# ------------------------------------------------------------------- files of a family's own code and of transformers

NOMIC_V2 = {
    "activation_function": "gelu",
    "add_pooling_layer": False,
    "auto_map": {"AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel"},
    "expert_choice_router": False,
    "ffn_div": 1,
    "moe_every_n_layers": 2,
    "moe_impl": "megablocks",
    "moe_normalize_expert_weights": False,
    "moe_top_k": 2,
    "num_experts": 8,
    "num_shared_experts": 0,
    "qkv_proj_bias": True,
    "mlp_fc1_bias": True,
    "mlp_fc2_bias": True,
}


def test_stacked_products_of_other_sizes(family):
    folder = family("nomic_bert-hub")
    name = "encoder.layers.1.attn.Wqkv.weight"
    rewrite(folder, lambda tensors: tensors.update({name: tensors[name][:72]}))
    message(folder, WeightsError, "layers.1.self_attn.k_proj.weight has shape [24, 36], expected [36, 36]")
    rewrite(folder, lambda tensors: tensors.update({name: tensors[name][:71]}))
    message(folder, ModelFormatError, f"{name} has shape [71, 36], expected 3 equal blocks of rows")


@pytest.mark.parametrize("changes", [{"prenorm": True}, {"rotary_emb_fraction": 0.5}])
def test_variants_of_nomic_bert(family, changes):
    folder = family("nomic_bert-hub")
    change_json(folder / "config.json", **changes)
    message(folder, UnsupportedError, "config.json", *changes, "is known")


@pytest.mark.parametrize(
    "changes",
    [
        {"num_shared_experts": 1},
        {"expert_choice_router": True},
        {"moe_normalize_expert_weights": True},
        {"ffn_div": 2},
    ],
)
def test_variants_of_experts(family, changes):
    folder = family("nomic_bert-moe")
    change_json(folder / "config.json", **changes)
    message(folder, UnsupportedError, "config.json", *changes, "is known")


@pytest.mark.parametrize("activation", ["swiglu", "gelu_new"])
def test_experts_with_another_activation(family, activation):
    folder = family("nomic_bert-moe")
    change_json(folder / "config.json", activation_function=activation)
    message(folder, UnsupportedError, "config.json", "gelu")


@pytest.mark.parametrize(
    "changes",
    [
        {"moe_top_k": 6},
        {"moe_top_k": 0},
        {"moe_top_k": ...},
        {"num_experts": 0},
        {"num_experts": 1},
        {"num_experts": -5},
        {"moe_every_n_layers": 0},
        {"moe_every_n_layers": "2"},
    ],
)
def test_absurd_numbers_of_experts(family, changes):
    folder = family("nomic_bert-moe")
    change_json(folder / "config.json", **changes)
    message(folder, ModelFormatError, "config.json", *changes, "expected")


def test_a_mixture_is_never_run_as_a_dense_model_or_the_other_way(family):
    """The configuration of nomic-embed-text-v2-moe over tensors of v1.5, and without its keys over its own."""
    folder = family("nomic_bert-hub")
    changes = {key: value for key, value in NOMIC_V2.items() if key != "model_type"}
    change_json(folder / "config.json", **changes)
    message(folder, WeightsError, "missing layers.1.mlp.experts.w1.weight", "missing layers.1.mlp.router.layer.weight")
    folder = family("nomic_bert-moe")
    change_json(folder / "config.json", num_experts=..., moe_top_k=..., moe_every_n_layers=...)
    message(folder, WeightsError, "missing layers.1.mlp.up_proj.weight", "unexpected layers.1.mlp.experts.w1.weight")


@pytest.mark.parametrize(
    ("name", "uniform"),
    [
        ("experts.mlp.w1", "experts.w1.weight [260, 36]"),
        ("experts.mlp.w2", "experts.w2.weight [260, 36]"),
        ("experts.bias", "experts.bias [36]"),
        ("router.layer.weight", "router.layer.weight [5, 36]"),
    ],
)
def test_missing_tensors_of_experts(family, name, uniform):
    folder = family("nomic_bert-moe")
    rewrite(folder, lambda tensors: tensors.pop(f"encoder.layers.3.mlp.{name}"))
    message(folder, WeightsError, "model.safetensors", f"missing layers.3.mlp.{uniform}")


def test_more_experts_than_the_file_has(family):
    folder = family("nomic_bert-moe")
    change_json(folder / "config.json", num_experts=6)
    message(folder, WeightsError, "layers.1.mlp.experts.w2.weight has shape [260, 36], expected [312, 36]")


@pytest.mark.parametrize(
    ("name", "uniform"),
    [
        ("cell.input.weight", "cell.input.weight [12, 64]"),
        ("cell.recurrent.weight", "cell.recurrent.weight [12, 12]"),
        ("cell.rate", "cell.rate [12]"),
        ("layer.weight", "layer.weight [8, 12]"),
    ],
)
def test_missing_tensors_of_a_liquid_gate(family, name, uniform):
    folder = family("liquid_moe")
    rewrite(folder, lambda tensors: tensors.pop(f"encoder.layers.1.mlp.router.{name}"))
    message(folder, WeightsError, "model.safetensors", f"missing layers.1.mlp.router.{uniform}")


def test_a_gate_of_another_kind(family):
    folder = family("liquid_moe")
    change_json(folder / "config.json", model_type="nomic_bert")
    # The keys of the cell are not NomicBERT's; the tensors tell.
    message(folder, WeightsError, "layers.1.mlp.router.layer.weight has shape [8, 12], expected [8, 64]")
    folder = family("nomic_bert-moe")
    change_json(folder / "config.json", model_type="liquid_moe", auto_map=...)
    message(folder, ModelFormatError, "config.json", "liquid_units is missing")
    change_json(folder / "config.json", liquid_units=12)
    message(folder, WeightsError, "tensors of nomic_bert", "missing layers.1.mlp.router.cell.rate [12]")


@pytest.mark.parametrize(
    "changes",
    [{"position_embedding_type": "absolute"}, {"layer_norm_type": "rms_norm"}, {"logn_attention_scale": True}],
)
def test_variants_of_gte(family, changes):
    folder = family("new")
    change_json(folder / "config.json", **changes)
    message(folder, UnsupportedError, "config.json", *changes, "is known")


@pytest.mark.parametrize(
    "scaling, said",
    [({"type": "wavy", "factor": 2.0}, 'rope_type is "wavy"'), ({"type": "ntk", "mixed_b": 0.6}, "mixed_b is 0.6")],
)
def test_scalings_of_rotary_positions(family, scaling, said):
    folder = family("new")
    change_json(folder / "config.json", rope_scaling=scaling)
    message(folder, ModelFormatError, "config.json", f"rope_scaling: {said}")


def test_adapters_for_tasks(family):
    folder = family("jina_embeddings_v3")
    change_json(folder / "config.json", lora_adaptations=["retrieval.query", "text-matching"])
    parts = 'lora_adaptations ["retrieval.query","text-matching"]', "adapters for tasks are read in the format"
    message(folder, UnsupportedError, "config.json", *parts)


@pytest.mark.parametrize("kind", ["original", None])
def test_variants_of_jina_v2(family, kind):
    folder = family("jina-bert")
    change_json(folder / "config.json", feed_forward_type=kind)
    message(folder, UnsupportedError, "config.json", 'feed_forward_type "original" with ALiBi', "known are geglu")


def test_alibi_is_never_run_as_learned_positions(family):
    folder = family("jina-bert")
    own = ["auto_map", "emb_pooler", "feed_forward_type"]
    change_json(folder / "config.json", position_embedding_type="absolute", **dict.fromkeys(own, ...))
    message(folder, WeightsError, "missing embeddings.position_embeddings.weight", "unexpected encoder.layer.0.mlp")
