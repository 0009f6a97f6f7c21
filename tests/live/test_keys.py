"""Keys of config.json against sentence-transformers: what it reads, and what its values change."""

import json
import math
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from fixtures import jina_bert, jina_lora, nomic_moe
from models import families
from models.spoil import change_json
from sentence_transformers import SentenceTransformer
from transformers import AutoConfig, GenerationConfig

import grilly

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
import reference_keys

# The imports make them known to transformers.
assert jina_bert.JinaBertModel and jina_lora.JinaLoraModel and nomic_moe.NomicMoeModel
SAME = 1e-5
# Of different lengths: a batch has padding, and a text alone has none.
TEXTS = ["a dog and the time of a year", "way", "the people have been here for a long time"]
TABLE = json.loads(reference_keys.TABLE.read_text(encoding="utf-8"))
# One checkpoint of each form; of those whose code is a repository's, transformers reads another configuration.
FORMS = {row["files"]["config.json"]["model_type"]: name for name, row in reversed(families.table().items())}
OWN = {"jina-bert": "jina-bert", "nomic_bert-hub": "nomic_bert-hub", "xlm-roberta-flash": "jina-lora"}
OWN |= {form: FORMS.pop(form) for form in ("liquid_moe", "new")}
FORMS |= {name: name for name in ("bert", "roberta", "xlm-roberta", "nomic_bert", "llama", "qwen2")}
# What trainers and other libraries leave, and what other versions of transformers wrote.
NOTES = {
    **{"neftune_noise_alpha": 5, "trust_remote_code": True, "max_seq_length": 7, "model_max_length": 9},
    **{"custom_pipelines": {"a": {"impl": "b.C"}}, "cls_pooling": True, "export_model_type": "transformer"},
    **{"attention_mode": "longformer", "sliding_window_size": 3, "down_scale_factor": 2, "net_structure_type": 1},
    **{"gap_size": 1, "num_memory_blocks": 2, "unsloth_fixed": True, "quantization_note": "none", "cache_dir": "x"},
}
# `PretrainedConfig().to_dict()` of transformers 4.57, and what its configurations of texts had.
OLDER = {
    **{"return_dict": True, "output_hidden_states": False, "output_attentions": False, "torchscript": False},
    **{"torch_dtype": "float32", "use_bfloat16": False, "tf_legacy_loss": False, "pruned_heads": {}, "prefix": None},
    **{"tie_word_embeddings": True, "chunk_size_feed_forward": 0, "is_encoder_decoder": False, "is_decoder": False},
    **{"cross_attention_hidden_size": None, "add_cross_attention": False, "tie_encoder_decoder": False},
    **{"max_length": 20, "min_length": 0, "do_sample": False, "early_stopping": False, "num_beams": 1},
    **{"num_beam_groups": 1, "diversity_penalty": 0.0, "temperature": 1.0, "top_k": 50, "top_p": 1.0, "typical_p": 1.0},
    **{"repetition_penalty": 1.0, "length_penalty": 1.0, "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0},
    **{"bad_words_ids": None, "num_return_sequences": 1, "output_scores": False, "return_dict_in_generate": False},
    **{"forced_bos_token_id": None, "forced_eos_token_id": None, "remove_invalid_values": False},
    **{"exponential_decay_length_penalty": None, "suppress_tokens": None, "begin_suppress_tokens": None},
    **{"finetuning_task": None, "tokenizer_class": None, "task_specific_params": None, "problem_type": None},
    **{"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}, "_name_or_path": "x"},
    **{"transformers_version": "4.57.0", "gradient_checkpointing": False, "use_cache": True, "_commit_hash": None},
}


def build(form: str, folder: Path) -> Path:
    name = {**FORMS, **OWN}[form]
    if name == "bert":
        shutil.copytree(families.FIXTURES / "tiny-bert", folder / "bert")
        return folder / "bert"
    return families.build(name, folder)


@pytest.fixture(params=sorted({*FORMS, *OWN}))
def form(request) -> str:
    return request.param


@pytest.fixture
def folder(form, tmp_path) -> Path:
    return build(form, tmp_path)


def encoded(model, folder: Path) -> np.ndarray:
    """The texts in one batch, and each alone."""
    batch = 1 if folder.name in families.table() and families.batch_size(folder.name) else 32
    return np.concatenate([model.encode(TEXTS, batch_size=batch), *(model.encode([text]) for text in TEXTS)])


def ours(folder: Path) -> np.ndarray:
    with grilly.SentenceTransformer(folder, device="cpu", dtype="float32") as model:
        return encoded(model, folder)


class Theirs:
    """The reference, loaded once; configurations give it another model."""

    def __init__(self, folder: Path):
        self.model = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": "float32"})

    def encode(self, folder: Path) -> np.ndarray:
        torch.manual_seed(0)
        first = self.model[0]
        first.model = type(first.model).from_pretrained(folder, dtype=torch.float32).eval()
        return encoded(self.model, folder)


def error(mine: np.ndarray, other: np.ndarray) -> float:
    return np.abs(mine - other).max() / np.abs(other).max()


def test_the_table_names_what_the_reference_reads():
    found = reference_keys.differences(TABLE)
    assert found and all(found[form] == (set(), set()) for form in found), found


def test_keys_that_the_reference_ignores_change_no_bit(folder, form):
    assert len(NOTES) >= 12 and not any(
        key in TABLE[form].get(kind, ()) for key in NOTES for kind in ("honoured", "only")
    )
    expected, theirs = ours(folder), None if form in OWN else Theirs(folder)
    reference = theirs and theirs.encode(folder)
    change_json(folder / "config.json", **NOTES)
    assert np.array_equal(ours(folder), expected)
    assert theirs is None or np.array_equal(theirs.encode(folder), reference)


def test_the_keys_of_older_versions_change_no_bit(folder, form):
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    expected = ours(folder)
    change_json(folder / "config.json", **(OLDER | config))
    assert np.array_equal(ours(folder), expected)


def test_every_default_written_out_changes_no_bit(folder, form):
    """As `to_json_file(use_diff=False)` writes them, with the parameters of generation."""
    if form in OWN:
        pytest.skip("transformers reads another configuration of it")
    expected = ours(folder)
    config = AutoConfig.from_pretrained(folder)
    generation = GenerationConfig._get_default_generation_params()
    whole = json.loads(config.to_json_string(use_diff=False)) | {key: generation[key] for key in generation}
    (folder / "config.json").write_text(json.dumps(whole), encoding="utf-8")
    assert np.array_equal(ours(folder), expected)
    assert error(expected, Theirs(folder).encode(folder)) < SAME


def others(key: str, value) -> list:
    """Other values of a key than the one that the configuration has."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [2 * value, max(value // 2, 1)]
    if isinstance(value, float):
        return [value * 0.7 + 0.01]
    if isinstance(value, str):
        return ["relu", "gelu_new"] if "act" in key else ["other"]
    if isinstance(value, list) and value and isinstance(value[0], str):
        return [value[::-1], value[:1] * len(value)]
    if isinstance(value, dict) and "rope_theta" in json.dumps(value):
        return [{"rope_type": "linear", "rope_theta": 77.0, "factor": 3.0}]
    return [True, False, 7]


def changes(form: str, folder: Path) -> list[tuple[str, object]]:
    """Each key that changes numbers, with other values than the configuration's."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    defaults = AutoConfig.from_pretrained(folder).to_dict()
    keys = {*TABLE[form]["honoured"], *TABLE[form].get("only", ()), *TABLE[form].get("names", ())}
    keys |= {"num_hidden_layers", *TABLE["all"]["only"]}
    marks = {*TABLE["all"]["marks"], *TABLE[form].get("marks", ())}
    for key in sorted(keys - marks - {"dtype", "torch_dtype"}):
        value = config.get(key, defaults.get(key))
        null = [None] if key == "is_causal" else []
        yield from ((key, other) for other in [*others(key, value), *null] if other != value or null)


def test_each_value_changes_numbers_as_the_references_or_is_refused(folder, form):
    if form in OWN:
        pytest.skip("transformers reads another configuration of it")
    config = (folder / "config.json").read_text(encoding="utf-8")
    theirs = Theirs(folder)
    wrong, compared, refused = [], 0, 0
    for key, value in changes(form, folder):
        (folder / "config.json").write_text(config, encoding="utf-8")
        change_json(folder / "config.json", **{key: value})
        try:
            mine = ours(folder)
        except grilly.errors.GrillyError as caught:
            refused += 1
            if key in TABLE[form].get("only", ()) and key not in str(caught):
                wrong.append(f"{key} {value!r}: {caught}")
            continue
        if (form, key, value) == ("stablelm", "is_causal", False):
            continue  # there sdpa is causal for a text alone, and not with padding; eager attention never is
        try:
            # It also chooses the pooling of a folder without modules.json.
            reference = (Theirs(folder) if key == "is_causal" else theirs).encode(folder)
        except TypeError:
            continue  # a value that no configuration of its has
        except Exception as caught:  # whatever it makes of the value
            if "Validation" not in type(caught).__name__:
                wrong.append(f"{key} {value!r}: computed here, and the reference says {str(caught)[:100]}")
            continue
        compared += 1
        difference = error(mine, reference)
        if not (difference < SAME or math.isnan(difference) and np.isnan(reference).any()):
            wrong.append(f"{key} {value!r}: {difference:.1e}")
    assert not wrong, f"{compared} compared, {refused} refused:\n" + "\n".join(wrong)
    assert compared


def test_kinds_of_layers_make_mistral_another_form(tmp_path):
    """transformers reads it as Ministral, some layers of which have no window."""
    folder = build("mistral", tmp_path)
    plain = ours(folder)
    change_json(folder / "config.json", layer_types=["full_attention", "sliding_attention"], sliding_window=3)
    theirs = Theirs(folder)
    assert type(theirs.model[0].model).__name__ == "MinistralModel"
    assert error(ours(folder), theirs.encode(folder)) < SAME < error(ours(folder), plain)


@pytest.mark.parametrize(
    "code", ["modeling_qwen.Qwen2Model", "Alibaba-NLP/gte-Qwen2-7B-instruct--modeling_qwen.Qwen2Model"]
)
def test_code_of_a_repository_under_transformers_own_name(code, tmp_path):
    folder = build("qwen2", tmp_path)
    change_json(folder / "config.json", auto_map={"AutoModel": code, "AutoConfig": "a.B"}, is_causal=False)
    assert error(ours(folder), Theirs(folder).encode(folder)) < SAME
    change_json(folder / "config.json", is_causal=...)
    with pytest.raises(grilly.errors.UnsupportedError, match="is_causal"):
        ours(folder)
