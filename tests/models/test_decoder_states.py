"""`decode_states` of the checkpoints with a decoder against transformers' goldens: three types, both backends."""

import random

import numpy as np
import pytest

from grilly import SentenceTransformer, VulkanSentenceTransformer

from . import families
from .golden import FLOAT32, NARROW, TYPES, per_text, same_bits

DECODERS = [name for name in families.table() if families.decodes(name)]


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(families.FIXTURES / "families.npz") as file:
        return dict(file)


@pytest.fixture(scope="module", params=DECODERS)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(name, tmp_path_factory):
    return families.build(name, tmp_path_factory.mktemp("decoders"))


@pytest.fixture(scope="module", params=TYPES)
def dtype(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def model(folder, device, dtype):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRILLY_STRICT", "1")
        with VulkanSentenceTransformer(folder, device=device, dtype=dtype) as model:
            yield model


def pairs(golden: dict, name: str, is_shifted: bool = True) -> tuple[list[str], list[str]]:
    """The texts that were encoded, and those that were decoded, in the order of `expected`."""
    texts = [str(text) for text in golden["texts"]]
    chosen = [pair for pair in golden[f"{name}/pairs"] if pair[2] == is_shifted]
    return [texts[pair[0]] for pair in chosen], [texts[pair[1]] for pair in chosen]


def expected(golden: dict, name: str, is_shifted: bool = True) -> list[np.ndarray]:
    ids, listed = per_text(golden[f"{name}/ids"]), golden[f"{name}/pairs"]
    ends = np.cumsum([len(ids[other]) for _, other, _ in listed])[:-1]
    rows = np.split(golden[f"{name}/states"], ends)
    return [each for each, pair in zip(rows, listed, strict=True) if pair[2] == is_shifted]


def test_a_pair(model, golden, name, dtype):
    """The cheapest test that dispatches what a decoder does; tests/modes.py runs it again."""
    (text, *_), (other, *_) = pairs(golden, name)
    states = model.decode_states(text, other)
    assert states.shape == expected(golden, name)[0].shape
    assert states.dtype == (np.float16 if dtype == "float16" else np.float32)


@pytest.mark.parametrize("is_shifted", [True, False], ids=["shifted", "as they are"])
def test_states(model, golden, name, device, dtype, is_shifted):
    found = model.decode_states(*pairs(golden, name, is_shifted), shift_right=is_shifted)
    exact = expected(golden, name, is_shifted)
    assert model.backend == device and model.dtype == dtype
    assert [each.shape for each in found] == [each.shape for each in exact]
    bound = FLOAT32 if dtype == "float32" else NARROW * golden[f"{name}/states_{dtype}"]
    differences = [np.abs(a.astype(np.float64) - b).max() for a, b in zip(found, exact)]
    assert max(differences) <= bound * np.abs(golden[f"{name}/states"]).max()


def test_lengths_are_what_the_goldens_are_there_for(golden, name):
    """Either text is longer, either has one token, and distances reach beyond the last bucket's start."""
    ids = [len(each) for each in per_text(golden[f"{name}/ids"])]
    lengths = [(ids[text], ids[other]) for text, other, _ in golden[f"{name}/pairs"]]
    assert any(a > b for a, b in lengths) and any(a < b for a, b in lengths) and (1, 1) in lengths
    config = families.table()[name]["files"]["config.json"]
    assert sum(b > config["relative_attention_max_distance"] for _, b in lengths) >= 3
    assert config["num_decoder_layers"] != config["num_layers"] != config["num_heads"] * config["d_kv"]
    assert config["num_heads"] * config["d_kv"] != config["d_model"]


def test_both_limits_of_buckets_are_crossed(golden):
    """The published 128 too."""
    reached = {families.table()[name]["files"]["config.json"]["relative_attention_max_distance"] for name in DECODERS}
    assert 128 in reached and len(reached) > 1


def test_same_bits_alone_and_in_any_batch_and_order(model, golden, name):
    texts, others = pairs(golden, name)
    states = model.decode_states(texts, others)
    order = list(range(len(texts)))
    random.Random(5).shuffle(order)
    shuffled = [texts[index] for index in order], [others[index] for index in order]
    for batch_size in (1, 3):
        again = model.decode_states(*shuffled, batch_size=batch_size)
        assert all(same_bits(each, states[index]) for each, index in zip(again, order, strict=True)), batch_size
    assert same_bits(model.decode_states(texts[0], others[0]), states[0])


def test_encoding_is_not_changed_by_decoding(model, golden, name, dtype):
    texts, others = pairs(golden, name)
    before = model.encode(texts[:2])
    model.decode_states(texts[:1], others[:1])
    assert same_bits(model.encode(texts[:2]), before)


def test_both_texts_are_cut_at_the_limit(folder, golden, name, device):
    """Ten tokens, the end token last: with the shift those that the decoder reads are the first ten of the whole."""
    with SentenceTransformer(folder, device=device, dtype="float32") as model:
        long, short = str(golden["texts"][17]), "a dog"
        whole, of_whole = model.decode_states(short, long), model.decode_states(long, short)
        encoded = model.encode(long, output_value="token_embeddings")
        model.max_seq_length = 10
        assert same_bits(model.decode_states(short, long), whole[:10])
        cut = model.decode_states(long, short)
        assert cut.shape == of_whole.shape and not np.allclose(cut, of_whole)
        assert len(encoded) > 128 or name == "t5"
    with SentenceTransformer(folder, device=device, dtype="float32", max_seq_length=10) as model:
        assert same_bits(model.decode_states(long, short), cut)


def test_a_prompt_is_for_the_encoder(model, golden, name):
    (text, *_), (other, *_) = pairs(golden, name)
    expected = model.decode_states("the " + text, other)
    assert same_bits(model.decode_states(text, other, prompt="the "), expected)
    model.prompts["task"] = "the "
    assert same_bits(model.decode_states([text], [other], prompt_name="task")[0], expected)
    assert not same_bits(model.decode_states(text, other), expected)


def test_the_plan_has_the_cross_form_of_attention(model, name):
    """Queries are rows of the decoder's tokens, keys those of the encoder's, each with boundaries of their own."""
    config = families.table()[name]["files"]["config.json"]
    inner, layers = config["num_heads"] * config["d_kv"], config["num_decoder_layers"]
    attention = [line for line in model.decoder_plan.splitlines() if " attention (" in line]
    assert len(attention) == 2 * layers
    for own, cross in zip(attention[::2], attention[1::2]):
        assert (
            own.count(f"[T, {3 * inner}]") == 3 and own.count("offsets[B+1]") == 2 and "relative_attention_bias" in own
        )
        assert f"query[T, {inner}]" in cross and cross.count(f"[R0, {2 * inner}]") == 2
        assert " offsets[B+1], state offsets[B+1])" in cross and "bias" not in cross
    assert "decoder" not in model.plan
