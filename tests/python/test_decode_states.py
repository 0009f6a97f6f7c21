"""`decode_states`: arguments, and files that lack what it needs."""

import json

import numpy as np
import pytest
from models import families
from models.golden import same_bits
from models.spoil import change_json, rewrite

from grilly import SentenceTransformer, VulkanSentenceTransformer
from grilly.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    ModelFormatError,
    NotFiniteError,
    UnsupportedError,
    UnusableError,
    WeightsError,
)

TEXTS = ["A dog runs through the wet grass.", "", "the cat"]
OTHERS = ["no", "A cat sits on the mat and sleeps.", ""]


@pytest.fixture
def folder(tmp_path):
    """A checkpoint with a decoder, to be spoiled."""
    return families.build("t5", tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same, to be read alone."""
    return families.build("t5", tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def model(whole):
    with VulkanSentenceTransformer(whole, device="cpu") as model:
        yield model


def decode(folder, **options):
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        assert np.isfinite(model.encode(TEXTS)).all()
        return model.decode_states(TEXTS, OTHERS, **options)


def refused(folder, kind: type[Exception], *parts: str, **options) -> None:
    """The model encodes, and `decode_states` raises an error with each of `parts`."""
    with pytest.raises(kind) as caught:
        decode(folder, **options)
    assert type(caught.value) is kind
    for part in parts:
        assert part in str(caught.value), str(caught.value)


# ------------------------------------------------------------------------------------------------------------ arguments


def test_kinds_of_texts(model):
    lists = model.decode_states(TEXTS, OTHERS)
    assert isinstance(lists, list) and [len(each) for each in lists] == [
        len(model.tokenizer.encode(text)) for text in OTHERS
    ]
    for texts, others in ((tuple(TEXTS), np.array(OTHERS)), (np.array(TEXTS), iter(OTHERS))):
        again = model.decode_states(texts, others)
        assert all(same_bits(a, b) for a, b in zip(again, lists, strict=True))
    one = model.decode_states(TEXTS[0], OTHERS[0])
    assert isinstance(one, np.ndarray) and same_bits(one, lists[0])
    assert model.decode_states([], []) == []


def test_both_classes_have_it(whole, model):
    with SentenceTransformer(whole, device="cpu", dtype="float32") as other:
        for a, b in zip(other.decode_states(TEXTS, OTHERS), model.decode_states(TEXTS, OTHERS), strict=True):
            assert same_bits(a, b)


@pytest.mark.parametrize(
    "texts, others, options, kind, words",
    [
        (TEXTS, OTHERS[:2], {}, InvalidArgumentError, "3 texts, but 2 decoder_texts; expected pairs"),
        (TEXTS, ["a", 3, "b"], {}, InvalidTypeError, r"decoder_texts\[1\] is of type int, expected str"),
        (["a", None, "b"], OTHERS, {}, InvalidTypeError, r"texts\[1\] is of type NoneType, expected str"),
        (TEXTS, ["a", "b\ud800", "c"], {}, InvalidArgumentError, r"decoder_texts\[1\] holds a lone surrogate"),
        ("a", ["b"], {}, InvalidTypeError, "texts and decoder_texts are a str and a list"),
        (["a"], "b", {}, InvalidTypeError, "texts and decoder_texts are a list and a str"),
        (TEXTS, 3, {}, InvalidTypeError, "decoder_texts is of type int"),
        (3, TEXTS, {}, InvalidTypeError, "texts is of type int"),
        (TEXTS, OTHERS, {"batch_size": 0}, InvalidArgumentError, "batch_size is 0"),
        (TEXTS, OTHERS, {"batch_size": "all"}, InvalidTypeError, "batch_size is of type str"),
        (TEXTS, OTHERS, {"prompt": 3}, InvalidTypeError, "prompt is of type int"),
        (TEXTS, OTHERS, {"prompt_name": "none"}, InvalidArgumentError, "prompt_name is 'none'"),
        (TEXTS, OTHERS, {"shift_right": "no"}, InvalidTypeError, "shift_right is of type str, expected bool"),
    ],
)
def test_impossible_arguments(model, texts, others, options, kind, words):
    with pytest.raises(kind, match=words):
        model.decode_states(texts, others, **options)


def test_progress_counts_pairs(model, capsys):
    model.decode_states(TEXTS, OTHERS, batch_size=1, show_progress_bar=True)
    shown = capsys.readouterr().err
    assert "3/3" in shown and "Texts" in shown


def test_many_pairs_are_decoded_group_by_group(model):
    """A group holds about 256 KB of text; the states of a pair are the same in any."""
    long = "a dog and the time of a year " * 400
    texts, others = [f"{number} {long}" for number in range(45)], [f"{long} {number}" for number in range(45)]
    seen = []
    core = model._core
    states = core.decode_states(texts, others, {}, seen.append)
    assert len(states) == 45 and seen == sorted(seen) and seen[-1] == 45
    for index in (0, 22, 44):
        assert same_bits(states[index], model.decode_states(texts[index], others[index]))


def test_an_interrupt_ends_the_call(model):
    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model._core.decode_states(TEXTS, OTHERS, {"batch_size": 1}, stop)
    assert len(model.decode_states(TEXTS, OTHERS)) == 3


def test_after_closing(whole):
    model = VulkanSentenceTransformer(whole, device="cpu")
    model.close()
    with pytest.raises(UnusableError, match="closed"):
        model.decode_states(TEXTS, OTHERS)


# ------------------------------------------------------------------------------------------------ models without one


def test_another_family(tiny_model):
    with VulkanSentenceTransformer(tiny_model, device="cpu") as model:
        for use in (lambda: model.decode_states(TEXTS, OTHERS), lambda: model.decoder_plan):
            with pytest.raises(UnsupportedError, match="of a bert model: it has no decoder.*mt5, t5, umt5 have one"):
                use()


@pytest.mark.parametrize("name", ["t5-matrix", "mt5"])
def test_a_checkpoint_of_the_encoder_alone(tmp_path, name):
    said = f"no tensor decoder.*; load a checkpoint of the whole {name.partition('-')[0]} model"
    refused(families.build(name, tmp_path), UnsupportedError, "model.safetensors", "the encoder alone", said)


def test_a_module_that_replaces_the_states(folder):
    kinds = ("Transformer", ""), ("Normalize", "1_Normalize"), ("Pooling", "2_Pooling")
    rows = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in kinds]
    (folder / "modules.json").write_text(json.dumps(rows))
    for path, config in (
        ("1_Normalize", {"module_input_name": "token_embeddings"}),
        ("2_Pooling", {"embedding_dimension": 36, "pooling_mode": "mean"}),
    ):
        (folder / path).mkdir()
        (folder / path / "config.json").write_text(json.dumps(config))
    refused(folder, UnsupportedError, "decode_states of a model with the module Normalize", "load a folder without it")


def test_an_encoder_needs_no_tensor_of_the_decoder(folder):
    rewrite(folder, lambda tensors: [tensors.pop(key) for key in list(tensors) if key.startswith("decoder.")])
    refused(folder, UnsupportedError, "holds the encoder alone")


# ---------------------------------------------------------------------------------------------------- spoiled files


def test_a_missing_tensor(folder):
    rewrite(folder, lambda tensors: tensors.pop("decoder.final_layer_norm.weight"))
    refused(folder, WeightsError, "model.safetensors: missing decoder.final_layer_norm.weight [36]", "fetch the folder")


def test_a_tensor_of_another_shape_and_an_unknown_one(folder):
    q = "decoder.block.2.layer.1.EncDecAttention.q.weight"

    def change(tensors):
        tensors[q] = tensors[q][:20]
        tensors["decoder.adapter.weight"] = np.zeros((2, 3), np.float32)

    rewrite(folder, change)
    refused(
        folder, WeightsError, f"{q} has shape [20, 36], expected [30, 36]", "unexpected decoder.adapter.weight [2, 3]"
    )


def test_layers_that_the_configuration_does_not_state(folder):
    change_json(folder / "config.json", num_decoder_layers=...)  # then as many as the encoder has
    refused(folder, WeightsError, "unexpected decoder.block.2.layer.0.SelfAttention.k.weight")


def test_tensors_of_old_checkpoints(folder):
    """A table that nothing reads, and other names of the words."""
    expected = decode(folder)

    def change(tensors):
        tensors["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = np.ones((12, 3), np.float32)
        tensors["encoder.embed_tokens.weight"] = tensors["decoder.embed_tokens.weight"] = tensors["shared.weight"]

    rewrite(folder, change)
    assert all(same_bits(a, b) for a, b in zip(decode(folder), expected, strict=True))
    rewrite(folder, lambda tensors: [tensors.pop(key) for key in ("shared.weight", "encoder.embed_tokens.weight")])
    assert all(same_bits(a, b) for a, b in zip(decode(folder), expected, strict=True))


@pytest.mark.parametrize(
    "key, value", [("num_decoder_layers", -1), ("num_decoder_layers", 10**9), ("decoder_start_token_id", "a")]
)
def test_absurd_keys(folder, key, value):
    change_json(folder / "config.json", **{key: value})
    with pytest.raises(ModelFormatError, match=f"config.json: {key} is {json.dumps(value)}"):
        VulkanSentenceTransformer(folder, device="cpu")


@pytest.mark.parametrize(
    "value, said", [(..., "is missing"), (None, "is missing"), (600, "is 600, but the embedding table has 600 rows")]
)
def test_no_token_to_shift_by(folder, value, said):
    change_json(folder / "config.json", decoder_start_token_id=value)
    refused(folder, ModelFormatError, str(folder / "config.json"), f"decoder_start_token_id {said}", "shift_right")
    assert len(decode(folder, shift_right=False)) == 3


def test_the_start_token_of_a_family_that_has_a_usual_one(tmp_path):
    folder = families.build("mt5-decoder", tmp_path)
    other = decode(folder)
    change_json(folder / "config.json", decoder_start_token_id=0)
    expected = decode(folder)
    assert not same_bits(other[0], expected[0])
    change_json(folder / "config.json", decoder_start_token_id=...)
    assert all(same_bits(a, b) for a, b in zip(decode(folder), expected, strict=True))
    change_json(folder / "config.json", decoder_start_token_id=None)
    refused(folder, ModelFormatError, "decoder_start_token_id is missing")


def test_damaged_weights(folder):
    def change(tensors):
        tensors["decoder.final_layer_norm.weight"] = np.full(36, np.nan, np.float32)

    rewrite(folder, change)
    refused(folder, NotFiniteError, "decoder.final_layer_norm.weight is NaN at [0]")
