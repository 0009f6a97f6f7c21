"""What `encode` takes and gives, on both devices."""

import sys

import numpy as np
import pytest

from grilly import VulkanSentenceTransformer
from grilly.quantization import quantize_embeddings

TEXTS = ["the cat", "", "a dog and a child and the world", "the", "way of life " * 100]


def same(a, b) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def unit(rows):
    rows = rows.astype(np.float64)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def test_shapes(model):
    rows = model.encode(TEXTS)
    assert rows.shape == (5, 32) and rows.dtype == np.float32 and rows.flags.c_contiguous and rows.flags.writeable
    assert model.encode(TEXTS[0]).shape == (32,)
    assert model.encode(TEXTS[:1]).shape == (1, 32)
    assert same(model.encode(TEXTS[0]), rows[0])
    assert same(model(TEXTS), rows)


@pytest.mark.parametrize("empty", [[], (), np.array([], dtype=object), np.array([], dtype=str), np.array([])])
def test_no_texts(model, empty):
    assert same(model.encode(empty), np.array([]))
    assert model.encode(empty, convert_to_numpy=False) == []
    assert model.encode(empty, output_value="token_embeddings") == []
    assert model.encode(empty, output_value=None) == []


def collections():
    yield tuple(TEXTS)
    yield np.array(TEXTS)
    yield np.array(TEXTS, dtype=object)
    yield [np.str_(text) for text in TEXTS]
    yield dict.fromkeys(TEXTS).keys()


@pytest.mark.parametrize("texts", list(collections()), ids=lambda texts: type(texts).__name__)
def test_other_collections(cpu_model, texts):
    assert same(cpu_model.encode(texts), cpu_model.encode(TEXTS))


def test_a_numpy_string_is_one_text(cpu_model):
    assert same(cpu_model.encode(np.array("the cat")), cpu_model.encode("the cat"))


@pytest.mark.parametrize("name", ["sentences", "inputs", "texts"])
def test_other_names_of_the_texts(cpu_model, name):
    assert same(cpu_model.encode(**{name: TEXTS}), cpu_model.encode(TEXTS))
    assert same(cpu_model.encode_query(**{name: TEXTS}), cpu_model.encode(TEXTS))


def test_texts_twice_or_never(cpu_model):
    with pytest.raises(TypeError, match="twice"):
        cpu_model.encode(TEXTS, sentences=TEXTS)
    with pytest.raises(TypeError, match="texts"):
        cpu_model.encode()


@pytest.mark.parametrize(
    "texts, kind, words",
    [
        (["a", 3], TypeError, r"texts\[1\] is of type int"),
        (["a", None], TypeError, r"texts\[1\] is of type NoneType"),
        (["a", b"b"], TypeError, r"texts\[1\] is of type bytes"),
        ([["a", "b", "c"]], ValueError, r"texts\[0\] has 3 texts"),
        ([["a", 3]], TypeError, r"pairs\[0\]\[1\] is of type int"),
        (["a", float("nan")], TypeError, r"texts\[1\] is of type float"),
        (3, TypeError, "int"),
        (None, TypeError, "NoneType"),
        (b"bytes", TypeError, "bytes"),
        ({"image": "a"}, TypeError, "dict"),
        ({"text": 3}, TypeError, r"texts\[0\] is of type int"),
        ({"a", "b"}, TypeError, "set"),
        (np.zeros(3), TypeError, "float64"),
        (["a", "b", "\ud83d"], ValueError, r"texts\[2\] holds a lone surrogate"),
        ("x\udc80", ValueError, r"texts\[0\] holds a lone surrogate"),
    ],
)
def test_what_is_no_text(model, texts, kind, words):
    with pytest.raises(kind, match=words):
        model.encode(texts)
    assert model.encode("still works").shape == (32,)


@pytest.mark.parametrize("batch_size", [0, -1, -(2**70)])
def test_batch_size_too_small(model, batch_size):
    with pytest.raises(ValueError, match="batch_size"):
        model.encode(TEXTS, batch_size=batch_size)


@pytest.mark.parametrize("batch_size", [1.5, "8", None])
def test_batch_size_of_another_type(model, batch_size):
    with pytest.raises(TypeError, match="batch_size"):
        model.encode(TEXTS, batch_size=batch_size)


@pytest.mark.parametrize("batch_size", [1, 2, np.int64(3), 10**30])
def test_batch_size_changes_no_bit(model, batch_size):
    assert same(model.encode(TEXTS, batch_size=batch_size), model.encode(TEXTS))


@pytest.mark.parametrize(
    "options, kind, words",
    [
        ({"normalise": True}, ValueError, "normalise"),
        ({"output_value": "tokens"}, ValueError, "tokens"),
        ({"output_value": ["token_embeddings"]}, ValueError, "token_embeddings"),
        ({"precision": "int4"}, ValueError, "int4"),
        ({"prompt_name": "nope"}, ValueError, "nope.*query"),
        ({"prompt": 3}, TypeError, "prompt"),
        ({"prompt": "\ud800"}, ValueError, "prompt holds a lone surrogate"),
        ({"truncate_dim": 0}, ValueError, "truncate_dim"),
        ({"truncate_dim": "8"}, TypeError, "truncate_dim"),
        ({"device": "tpu"}, ValueError, "tpu"),
        ({"device": []}, ValueError, "list of devices is empty"),
        ({"device": ["cpu", "tpu"]}, ValueError, "tpu"),
        ({"pool": {}}, TypeError, "start_multi_process_pool"),
        ({"pool": {"processes": []}}, ValueError, "stopped"),
        ({"device": ["cpu"], "chunk_size": 0}, ValueError, "chunk_size"),
        ({"processing_kwargs": {"text": {"max_length": 0}}}, ValueError, "max_length is 0"),
        ({"processing_kwargs": {"text": {"truncation": False}}}, NotImplementedError, "a call takes padding"),
        ({"processing_kwargs": {"text": {"stride": 3}}}, NotImplementedError, "stride"),
        ({"processing_kwargs": {"image": {"padding": True}}}, NotImplementedError, "a call takes padding"),
        ({"output_value": None, "precision": "int8"}, ValueError, "int8"),
    ],
)
def test_impossible_options(cpu_model, options, kind, words):
    with pytest.raises(kind, match=words):
        cpu_model.encode(TEXTS, **options)


def test_options_that_change_nothing(cpu_model):
    expected = cpu_model.encode(TEXTS)
    changing_nothing: list[dict] = [{"device": "cpu"}, {"precision": None}, {"task": "query"}, {"truncate_dim": 99}]
    usual = {"padding": "max_length", "truncation": True, "max_length": cpu_model.max_seq_length}
    changing_nothing += [{"processing_kwargs": {"text": usual}}, {"processing_kwargs": {"text": {"padding": True}}}]
    changing_nothing += [{"device": ["cuda:0", "cuda:1"]}, {"chunk_size": 1}, {"device": ["cpu"], "chunk_size": 1}]
    for options in changing_nothing:
        assert same(cpu_model.encode(TEXTS, **options), expected)


@pytest.mark.parametrize("limit", [3, 9, 1000])
def test_the_limit_of_a_call(cpu_model, limit):
    before = cpu_model.max_seq_length
    found = cpu_model.encode(TEXTS, processing_kwargs={"text": {"max_length": limit, "truncation": True}})
    try:
        cpu_model.max_seq_length = limit  # at most the positions
        assert same(found, cpu_model.encode(TEXTS))
    finally:
        cpu_model.max_seq_length = before


def test_normalisation(model):
    plain = model.encode(TEXTS, normalize_embeddings=False)
    assert not np.allclose(np.linalg.norm(plain, axis=1), 1)
    assert np.abs(model.encode(TEXTS) - unit(plain)).max() <= 6e-8
    assert same(model.encode(TEXTS, 32, False, False), plain)


def test_truncation(model):
    plain = model.encode(TEXTS, normalize_embeddings=False)
    assert same(model.encode(TEXTS, truncate_dim=7, normalize_embeddings=False), np.ascontiguousarray(plain[:, :7]))
    assert np.abs(model.encode(TEXTS, truncate_dim=7) - unit(plain[:, :7])).max() <= 6e-8
    with model.truncate_embeddings(7):
        assert model.get_sentence_embedding_dimension() == 7
        assert same(model.encode(TEXTS), model.encode(TEXTS, truncate_dim=7))
    assert model.truncate_dim is None and model.encode("the").shape == (32,)


def test_truncation_of_the_constructor(tiny_model):
    with VulkanSentenceTransformer(tiny_model, device="cpu", truncate_dim=5) as model:
        assert model.get_embedding_dimension() == 5 and model.encode("the").shape == (5,)
        assert model.encode("the", truncate_dim=6).shape == (6,)


def test_token_embeddings(model):
    rows = model.encode(TEXTS, output_value="token_embeddings")
    assert isinstance(rows, list)
    assert [row.shape for row in rows] == [(len(model.tokenizer.encode(text, truncation=True)), 32) for text in TEXTS]
    mean = np.stack([row.astype(np.float64).mean(axis=0) for row in rows])
    assert np.abs(mean - model.encode(TEXTS, normalize_embeddings=False)).max() < 1e-6
    assert same(model.encode(TEXTS[0], output_value="token_embeddings"), rows[0])


def test_everything_of_a_text(model):
    rows = model.encode(TEXTS, output_value=None)
    tokens = model.encode(TEXTS, output_value="token_embeddings")
    plain = model.encode(TEXTS, normalize_embeddings=False)
    for row, vectors, sentence, text in zip(rows, tokens, plain, TEXTS, strict=True):
        assert set(row) == {"input_ids", "attention_mask", "token_embeddings", "sentence_embedding"}
        assert row["input_ids"].dtype == np.int64 and row["input_ids"].tolist() == model.tokenizer.encode(
            text, truncation=True
        )
        assert row["attention_mask"].tolist() == [1] * len(row["input_ids"])
        assert same(row["token_embeddings"], vectors) and same(row["sentence_embedding"], sentence)
    assert set(model.encode("the", output_value=None)) == set(rows[0])


@pytest.mark.parametrize("precision", ["float32", "int8", "uint8", "binary", "ubinary"])
def test_precision(cpu_model, precision):
    rows = cpu_model.encode(TEXTS)
    assert same(cpu_model.encode(TEXTS, precision=precision), quantize_embeddings(rows, precision))


def test_precision_of_one_text(cpu_model):
    assert cpu_model.encode("the", precision="ubinary").shape == (4,)
    with pytest.raises(ValueError, match="one"):
        cpu_model.encode("the", precision="int8")


def test_precision_of_token_embeddings(cpu_model):
    tokens = cpu_model.encode(TEXTS, output_value="token_embeddings")
    found = cpu_model.encode(TEXTS, output_value="token_embeddings", precision="uint8")
    for row, expected in zip(found, quantize_embeddings(tokens, "uint8"), strict=True):
        assert same(row, expected)


def test_a_list_of_rows(cpu_model):
    rows = cpu_model.encode(TEXTS, convert_to_numpy=False)
    assert isinstance(rows, list) and same(np.stack(rows), cpu_model.encode(TEXTS))


def test_an_array_answers_as_a_tensor_without_torch(cpu_model, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    rows = cpu_model.encode(TEXTS, convert_to_tensor=True)
    assert same(rows.cpu().numpy(), cpu_model.encode(TEXTS)) and rows.unsqueeze(0).shape == (1, *rows.shape)
    assert cpu_model.similarity(rows[0], rows).topk(1).indices.tolist() == [[0]]
    assert cpu_model.encode(TEXTS, output_value=None)[0]["token_embeddings"].float().dim() == 2


def test_a_very_long_text(model):
    words = "the cat and the dog " * 20_000
    row = model.encode(words)
    assert len(model.tokenizer.encode(words, truncation=True)) == 48 and np.isfinite(row).all()
    assert same(row, model.encode(words[:2000]))


def test_odd_characters(model):
    texts = ["\0\x01\x02", "\u200b\u200d", "👩‍👩‍👧‍👦", "\ufeff", "a" * 5000, "\n\t ", "שלום", "日本語", "\U0010ffff"]
    rows = model.encode(texts)
    assert np.isfinite(rows).all() and rows.shape == (len(texts), 32)


def test_max_seq_length_may_be_set(model):
    text = "the cat and the dog and the child"
    before = model.encode(text)
    model.max_seq_length = 4
    assert model.max_seq_length == 4 and len(model.tokenizer.encode(text, truncation=True)) == 4
    assert same(model.encode(text), model.encode("the cat")) and not same(model.encode(text), before)
    model.max_seq_length = 48
    assert same(model.encode(text), before)
    for value, kind in ((0, ValueError), ("4", TypeError)):
        with pytest.raises(kind):
            model.max_seq_length = value


def test_progress_bar(model, capsys):
    rows = model.encode(TEXTS * 4, batch_size=2, show_progress_bar=True)
    shown = capsys.readouterr().err
    assert "20/20" in shown and "Texts" in shown
    assert same(rows[:5], model.encode(TEXTS)) and capsys.readouterr().err == ""


def test_tokenizer(cpu_model):
    both = cpu_model.tokenizer(["the cat", ""])
    assert both["input_ids"] == [cpu_model.tokenizer.encode("the cat"), cpu_model.tokenizer.encode("")]
    assert both["attention_mask"] == [[1] * 4, [1] * 2]
    assert cpu_model.tokenizer("the cat")["input_ids"] == both["input_ids"][0]
    for wrong, message in ((3, "text is of type int"), ([3], r"texts\[0\]")):
        with pytest.raises(TypeError, match=message):
            cpu_model.tokenizer.encode(wrong)


def test_a_tokenizer_reads_the_whole_text_unless_asked(cpu_model):
    text = "the cat and the dog " * 30
    assert len(cpu_model.tokenizer.encode(text)) == 152 and len(cpu_model.tokenizer.encode(text, truncation=True)) == 48
    assert cpu_model.preprocess([text])["input_ids"].shape == (1, 48)


def test_a_closed_model(tiny_model, device):
    model = VulkanSentenceTransformer(tiny_model, device=device)
    model.close()
    model.close()
    for texts in (TEXTS, "the", []):
        with pytest.raises(RuntimeError, match="closed"):
            model.encode(texts)


@pytest.mark.vulkan
def test_closing_frees_device_memory(tiny_model, vulkan):
    import grilly

    before = grilly.stats()["bytes_held"]
    with VulkanSentenceTransformer(tiny_model, device=vulkan) as model:
        model.encode(TEXTS)
        assert grilly.stats()["bytes_held"] > before
    assert grilly.stats()["bytes_held"] == before
    model = VulkanSentenceTransformer(tiny_model, device=vulkan)
    model.encode(TEXTS)
    del model
    assert grilly.stats()["bytes_held"] == before
