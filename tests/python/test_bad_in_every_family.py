"""Damage that any family's checkpoint may have: one typed error that names file, key or tensor, and remedy."""

import json
from pathlib import Path

import pytest
from models import families, safetensors_file
from models.spoil import change_json

from grilly import VulkanSentenceTransformer
from grilly.errors import GrillyError, ModelFormatError, UnsupportedError, WeightsError

TABLE = families.table()
# The first checkpoint of each model_type.
NAMES = list({row["files"]["config.json"]["model_type"]: name for name, row in reversed(TABLE.items())}.values())
NAMES.append("jina-lora")  # which has another's
# Keys of sizes, as the families call them; T5 has no limit of positions.
SIZES = ["hidden_size", "dim", "n_embd", "d_model", "num_hidden_layers", "n_layers", "n_layer", "num_layers"]
SIZES += ["num_attention_heads", "n_heads", "n_head", "num_heads", "intermediate_size", "hidden_dim", "d_ff", "n_inner"]
SIZES += ["vocab_size", "max_position_embeddings", "n_positions", "head_dim", "num_key_value_heads", "d_kv"]
UNUSED = {("t5", "n_positions"), ("mt5", "n_positions")}
# What an encoder without its heads does not read.
NOT_READ = (
    "position_ids",
    "adapter_modules.en_XX",  # X-MOD's of another language
    "embed_positions",  # RoFormer's, which is computed where it is missing
    "_global.",
    "lm_head",
    "pooler",
    "classifier",
    "predictions",
    "decoder.",
    "head.",
    "vocab_",
    "cls.",
    "rotary_emb",
    "embed_out",
    "attn.bias",
    "attention.bias",
)


@pytest.fixture(scope="module", params=NAMES)
def name(request) -> str:
    return request.param


@pytest.fixture
def folder(name, tmp_path) -> Path:
    return families.build(name, tmp_path)


def refusal(folder: Path) -> GrillyError | None:
    try:
        VulkanSentenceTransformer(folder, device="cpu").close()
    except GrillyError as error:
        assert str(folder) in str(error)
        return error
    return None


def test_a_truncated_file(folder):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for kept in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:kept])
        error = refusal(folder)
        assert isinstance(error, WeightsError | ModelFormatError), kept
        assert "model.safetensors" in str(error) and "fetch" in str(error), error


def test_a_missing_tensor(name, folder):
    path = folder / "model.safetensors"
    tensors = safetensors_file.read(path)
    refused = []
    for missing in tensors:
        safetensors_file.write(path, {key: value for key, value in tensors.items() if key != missing})
        error = refusal(folder)
        if error is None:
            continue
        assert type(error) is WeightsError and "model.safetensors" in str(error) and "fetch" in str(error), error
        assert "missing " in str(error), error
        refused.append(missing)
    left = set(tensors) - set(refused)
    words = {"shared.weight", "encoder.embed_tokens.weight"}  # T5's words have two names, of which one is enough
    assert all(any(part in each for part in NOT_READ) or each in words or each.startswith("dense.") for each in left), (
        left
    )
    assert len(refused) > 10


@pytest.mark.parametrize("value", [-1, 0, 10**12, "x", 2.5])
def test_an_absurd_size(name, folder, value):
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    keys = [key for key in SIZES if key in config and (config["model_type"], key) not in UNUSED]
    assert len(keys) >= 5
    for key in keys:
        if config[key] is None:
            continue
        change_json(folder / "config.json", **{key: value})
        error = refusal(folder)
        assert type(error) is ModelFormatError and "config.json" in str(error), (key, error)
        assert key in str(error) and "expected" in str(error), error
        change_json(folder / "config.json", **{key: config[key]})
    assert refusal(folder) is None


KEYS = json.loads((families.FIXTURES.parents[1] / "src/model/arch/keys.json").read_text(encoding="utf-8"))


def test_an_unknown_rope_scaling(name, folder):
    path = folder / "config.json"
    for key in ("rope_scaling", "rope_parameters"):
        before = json.loads(path.read_text(encoding="utf-8")).get(key, ...)
        change_json(path, rope_scaling=..., rope_parameters=...)
        change_json(path, **{key: {"rope_type": "wavy", "factor": 2.0}})
        error = refusal(folder)
        if key not in KEYS[json.loads(path.read_text(encoding="utf-8"))["model_type"]]["honoured"]:
            # Without rotary positions the reference does not read it.
            assert error is None
            continue
        assert isinstance(error, ModelFormatError | UnsupportedError), error
        assert "config.json" in str(error) and key in str(error), error
        change_json(path, **{key: before})
