"""The architectures beside BERT against sentence-transformers' goldens: three types, both backends, no fallback."""

import random

import lavapipe
import numpy as np
import pytest
from conftest import LONG

from grilly import VulkanSentenceTransformer, _core

from . import device_process, families
from .golden import FLOAT32, TYPES, error, normalized, per_text, same_bits
from .golden import bound as bound_of

TABLE = families.table()


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(families.FIXTURES / "families.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def sentences(golden) -> list[str]:
    return [str(text) for text in golden["texts"]]


@pytest.fixture(scope="module", params=TABLE)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(name, tmp_path_factory):
    return families.build(name, tmp_path_factory.mktemp("families"))


@pytest.fixture(scope="module", params=TYPES)
def dtype(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def model(name, folder, device, dtype, need_width):
    need_width(TABLE, name, dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRILLY_STRICT", "1")
        with VulkanSentenceTransformer(folder, device=device, dtype=dtype) as model:
            yield model


@pytest.fixture(scope="module")
def bound(name, dtype, golden) -> float:
    return bound_of(golden, name, dtype)


def test_a_text(model, name, sentences, golden, bound):
    """The cheapest test that dispatches what the family does; tests/modes.py runs it again."""
    lengths = [len(ids) for ids in per_text(golden[f"{name}/ids"])]
    index = next(index for index, length in enumerate(lengths) if length > 2)
    row = model.encode(sentences[index], normalize_embeddings=False)
    expected = golden[f"{name}/rows"]
    assert np.abs(row - expected[index]).max() <= bound * np.abs(expected).max()


@pytest.fixture(scope="module")
def some(slow) -> slice:
    """All texts; on a software driver every fourth, the empty one and some beyond the limit among them."""
    return slice(1, None, 4) if slow else slice(None)


@pytest.fixture(scope="module")
def rows(model, sentences, some) -> np.ndarray:
    return model.encode(sentences[some], normalize_embeddings=False)


def test_embeddings(model, rows, some, name, device, dtype, golden, bound):
    assert model.backend == device and model.dtype == dtype
    assert rows.dtype == (np.float16 if dtype == "float16" else np.float32)
    assert error(rows, golden[f"{name}/rows"][some]) <= bound


def test_same_bits_in_any_batch_and_order_and_alone(model, rows, sentences, some, slow):
    order = list(range(len(rows)))[:: 3 if slow else 1]
    random.Random(3).shuffle(order)
    shuffled = [sentences[some][index] for index in order]
    for batch_size in (1, 7):
        again = model.encode(shuffled, batch_size=batch_size, normalize_embeddings=False)
        assert same_bits(again, rows[order]), batch_size
    alone = model.encode(shuffled[0], normalize_embeddings=False)
    assert same_bits(alone, rows[order[0]])


def test_token_embeddings(model, name, dtype, sentences, slow, golden):
    """One row a token; their mean, or the first, is the text's."""
    some = slice(1, None, 12) if slow else slice(None)
    tokens = model.encode(sentences[some], output_value="token_embeddings", normalize_embeddings=False)
    lengths = [len(ids) for ids in per_text(golden[f"{name}/ids"])][some]
    config = TABLE[name]["files"]["config.json"]
    width = next(config[key] for key in ("hidden_size", "dim", "n_embd", "d_model") if key in config)
    assert [each.shape for each in tokens] == [(length, width) for length in lengths]
    modules = TABLE[name]["files"].get("modules.json", [])
    pooling = TABLE[name]["files"].get("1_Pooling/config.json", {})
    if dtype == "float32" and not any(module["type"].endswith(("Dense", "Normalize")) for module in modules):
        usual = "lasttoken" if not modules and config["architectures"][0].endswith("ForCausalLM") else "mean"
        mode = "cls" if pooling.get("pooling_mode_cls_token") else pooling.get("pooling_mode", usual)
        one = {"cls": lambda x: x[0], "lasttoken": lambda x: x[-1], "mean": lambda x: x.mean(axis=0)}[mode]
        pooled = np.stack([one(np.asarray(each)) if len(each) else np.zeros(width, np.float32) for each in tokens])
        assert error(pooled, golden[f"{name}/rows"][some]) <= FLOAT32


def test_tokens_and_limit(name, folder, sentences, golden):
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        assert model.max_seq_length == golden[f"{name}/limit"]
        assert [list(model.tokenizer.encode(text, truncation=True)) for text in sentences] == per_text(
            golden[f"{name}/ids"]
        )


@pytest.mark.parametrize("name", ["roberta", "roberta-pad-3", "xlm-roberta", "camembert", "mpnet"], indirect=True)
def test_texts_hold_the_pad_token_and_cross_the_limit(name, golden):
    """What the goldens are there for: pads inside a text shift the positions after them."""
    pad = TABLE[name]["files"]["config.json"]["pad_token_id"] if name != "mpnet" else 1
    ids = per_text(golden[f"{name}/ids"])
    limit = golden[f"{name}/limit"]
    assert sum(pad in row for row in ids) >= 3
    assert sum(len(row) == limit for row in ids) >= 2
    assert any(len(row) == limit and pad in row for row in ids)


def test_every_distance_occurs(golden):
    """mpnet: one bucket holds every distance from 91 on, whichever side."""
    for name in ("mpnet", "mpnet-matrix", "mpnet-bfloat16"):
        assert sum(len(ids) > 128 for ids in per_text(golden[f"{name}/ids"])) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2-matrix"], indirect=True)
@pytest.mark.parametrize("width", lavapipe.SUBGROUPS)
def test_pre_norm_and_causal_at_other_subgroup_sizes(vulkan, folder, name, width, sentences, golden, tmp_path):
    if "llvmpipe" not in _core.engine("vulkan").device:
        pytest.skip("only lavapipe's subgroup size is set by a variable")
    some = slice(None, None, 1 if LONG else 3)
    found = device_process.run(
        folder, sentences[some], tmp_path, lavapipe.environment(width) | {"GRILLY_STRICT": "1"}, bits=True
    )
    assert found.record["backend"] == "vulkan" and all(found.record["bits"].values())
    assert found.ids == per_text(golden[f"{name}/ids"])[some]
    assert error(found.embeddings, normalized(golden[f"{name}/rows"])[some]) <= FLOAT32
