"""Texts of more tokens than a model reads: windows joined, and the vectors of parts of a text."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from grilly import SentenceTransformer, _core
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from grilly.sentence_transformer.after_pooling import ACTIVATIONS
from grilly.sentence_transformer.windows import check_model, pooled

SENTENCES = [f"Sentence {number} tells of the {word}." for number, word in enumerate("sea hill rain wood sun".split())]
TEXT = " ".join(SENTENCES)
SHORT = "A short text."
LIMIT = 16


@pytest.fixture(scope="module")
def model(real_model_path: Path) -> Iterator[SentenceTransformer]:
    with SentenceTransformer(real_model_path, device="cpu", max_seq_length=LIMIT) as model:
        yield model


def by_hand(model: SentenceTransformer, text: str, overlap: int) -> tuple[np.ndarray, list[int]]:
    """Rows and ids of the tokens, each from the window in which it is farthest from an end, the earlier one of two."""
    own = model.tokenizer(text, add_special_tokens=False)["input_ids"]
    first, last, size = 101, 102, LIMIT - 2
    starts = [0]
    while starts[-1] + size < len(own):
        starts.append(starts[-1] + size - overlap)
    windows = [[first, *own[start : start + size], last] for start in starts]
    rows = model._core.encode_rows((windows, [[0] * len(ids) for ids in windows]), {"tokens": True}).tokens
    found = [rows[0][0]]
    for token in range(len(own)):
        distances = {
            number: min(
                token - start if number else 1 << 30,
                (start + size - 1 - token) if number + 1 < len(starts) else 1 << 30,
            )
            for number, start in enumerate(starts)
            if start <= token < start + size
        }
        best = max(distances, key=lambda number: (distances[number], -number))
        found.append(rows[best][1 + token - starts[best]])
    return np.stack([*found, rows[-1][-1]]), [first, *own, last]


def mean(rows: np.ndarray) -> np.ndarray:
    found = (rows.astype(np.float64).sum(axis=0) / len(rows)).astype(np.float32)
    return found / np.sqrt((found * found).sum())


@pytest.mark.parametrize("overlap", [0, 1, 4, 7, 13])
def test_windows_are_joined_and_pooled_as_one_text(model: SentenceTransformer, overlap: int) -> None:
    rows, ids = by_hand(model, TEXT, overlap)
    assert len(ids) > 2 * LIMIT
    features = model.encode([TEXT, SHORT], output_value=None, windows=overlap)
    assert features[0]["input_ids"].tolist() == ids
    assert np.array_equal(features[0]["token_embeddings"], rows)
    embedding = model.encode(TEXT, windows=overlap)
    assert np.array_equal(features[0]["sentence_embedding"], embedding)
    assert np.abs(embedding - mean(rows)).max() < 1e-7
    assert np.abs(embedding - model.encode(TEXT)).max() > 0.01
    tokens = model.encode([TEXT], output_value="token_embeddings", windows=overlap)
    assert np.array_equal(tokens[0], rows)


def test_a_text_of_one_window_is_as_without(model: SentenceTransformer) -> None:
    texts = [SHORT, "", SENTENCES[0]]
    assert np.array_equal(model.encode(texts, windows=4), model.encode(texts))
    assert np.array_equal(model.encode([TEXT, *texts], windows=4)[1:], model.encode(texts))
    assert np.array_equal(model.encode(texts, windows=4, prompt="query: "), model.encode(texts, prompt="query: "))
    assert np.array_equal(model.encode([SHORT, TEXT], windows=4)[1], model.encode(TEXT, windows=4))
    parts = list(model.encode(iter([TEXT, SHORT]), windows=4, chunk_size=1))
    assert np.array_equal(np.concatenate(parts), model.encode([TEXT, SHORT], windows=4))


def test_other_options_hold(model: SentenceTransformer, tmp_path: Path) -> None:
    whole = model.encode([TEXT], windows=4)
    short = model.encode([TEXT], windows=4, truncate_dim=10, normalize_embeddings=True)
    assert np.abs(short - whole[:, :10] / np.linalg.norm(whole[:, :10])).max() < 1e-6
    assert np.array_equal(model.encode([TEXT], windows=4, out=tmp_path / "rows.npy"), whole)
    assert np.array_equal(model.encode_document([TEXT], windows=4), whole)
    assert not np.array_equal(model.encode([TEXT], windows=4, prompt="query: "), whole)


@pytest.mark.parametrize("mode", ["cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"])
def test_other_modes_of_pooling(real_model_path: Path, mode: str) -> None:
    with SentenceTransformer(real_model_path, device="cpu", max_seq_length=LIMIT) as model:
        model[1].pooling_mode = mode
        rows = model.encode([TEXT], output_value="token_embeddings", windows=4)[0].astype(np.float64)
        weights = np.arange(1, len(rows) + 1)
        expected = {
            "cls": rows[0],
            "max": rows.max(axis=0),
            "mean_sqrt_len_tokens": rows.sum(axis=0) / len(rows) ** 0.5,
            "weightedmean": (rows * weights[:, None]).sum(axis=0) / weights.sum(),
            "lasttoken": rows[-1],
        }[mode]
        assert np.abs(model.encode(TEXT, windows=4) - expected / np.linalg.norm(expected)).max() < 1e-6
        # The engine pools a text of one window in the same way.
        model.max_seq_length = 128
        by_engine = model.encode(TEXT)
        rows = model.encode(TEXT, output_value="token_embeddings")
        assert np.abs(pooled(model, [rows], [mode])[0] - by_engine).max() < 1e-6
        if mode in ("cls", "lasttoken"):
            with pytest.raises(UnsupportedError, match=f"pools by {mode}"):
                model.encode_chunks(TEXT, SENTENCES)


AFTER_POOLING = (
    "dense_tanh dense_identity dense_relu dense_gelu dense_silu dense_wider dense_no_bias dense_two dense_residual "
    "dense_residual_projected layer_norm dropout every_module"
).split()


@pytest.mark.parametrize("name", AFTER_POOLING)
def test_modules_after_pooling_are_those_of_the_engine(checkpoint: Callable[[str], Path], name: str) -> None:
    with SentenceTransformer(checkpoint(name), device="cpu") as model:
        rows = [model.encode(text, output_value="token_embeddings") for text in SENTENCES]
        by_engine = model.encode(SENTENCES)
        assert np.abs(pooled(model, rows, check_model(model)) - by_engine).max() < 1e-6
        model.max_seq_length = LIMIT
        found = model.encode([TEXT, SHORT], output_value=None, windows=4)
        expected = pooled(model, [found[0]["token_embeddings"]], check_model(model))
        assert np.array_equal(model.encode([TEXT, SHORT], windows=4)[0], expected[0])
        assert np.array_equal(model.encode([TEXT, SHORT], windows=4)[1], model.encode(SHORT))


def test_every_activation_of_a_dense_is_known() -> None:
    assert set(dict(_core.module_rows())["Dense"]) == set(ACTIVATIONS)


@pytest.mark.parametrize("name", ["dense_of_tokens", "normalize_of_tokens"])
def test_models_that_pool_other_rows_are_refused(checkpoint: Callable[[str], Path], name: str) -> None:
    with SentenceTransformer(checkpoint(name), device="cpu") as model:
        for call in (lambda: model.encode([TEXT], windows=4), lambda: model.encode_chunks(TEXT, SENTENCES)):
            with pytest.raises(UnsupportedError, match="windows and chunks of a model of Transformer, "):
                call()


def test_a_prompt_that_is_not_pooled(real_model_path: Path) -> None:
    with SentenceTransformer(real_model_path, device="cpu", max_seq_length=LIMIT) as model:
        model.set_pooling_include_prompt(False)
        rows = model.encode(TEXT, prompt="query: ", output_value="token_embeddings", windows=4)
        # [CLS], "query" and ":" are left out.
        assert np.abs(model.encode(TEXT, prompt="query: ", windows=4) - mean(rows[3:])).max() < 1e-7


def test_truncation_on_the_left_gives_windows_in_the_order_of_the_text(real_model_path: Path) -> None:
    with SentenceTransformer(real_model_path, device="cpu", max_seq_length=LIMIT) as model:
        model.tokenizer.truncation_side = "left"
        ids = model.encode([TEXT], output_value=None, windows=4)[0]["input_ids"].tolist()
        model.max_seq_length = 128
        assert ids == model.tokenizer(TEXT)["input_ids"]


def test_bad_windows_are_told(model: SentenceTransformer) -> None:
    for windows, kind, problem in [
        (-1, InvalidArgumentError, "windows is -1"),
        (14, InvalidArgumentError, "stride is 14, expected less than 14"),
        (1.5, InvalidTypeError, "windows"),
        ("4", InvalidTypeError, "windows"),
    ]:
        with pytest.raises(kind, match=problem):
            model.encode([TEXT], windows=windows)
    with pytest.raises(InvalidArgumentError, match=r"texts\[1\] is a pair"):
        model.encode([TEXT, (TEXT, SHORT)], windows=4)
    with pytest.raises(InvalidTypeError, match=r"texts\[1\] is of type int, expected str"):
        model.encode([TEXT, 5], windows=4)
    with pytest.raises(InvalidTypeError, match=r"texts\[0\] is of type NoneType"):
        model.encode([None], windows=4, prompt="query: ")


def test_no_texts_have_no_chunks(model: SentenceTransformer) -> None:
    assert model.encode_chunks([], []) == []
    (none,) = model.encode_chunks([SHORT], [[]])
    assert none.shape == (0, 384) and model.encode_chunks(SHORT, []).shape == (0, 384)


def test_chunks_are_pooled_of_the_tokens_that_share_a_character(model: SentenceTransformer) -> None:
    model.max_seq_length = 128
    try:
        rows = model.encode(TEXT, output_value="token_embeddings")
        offsets = model.tokenizer(TEXT, return_offsets_mapping=True)["offset_mapping"]
        found = model.encode_chunks(TEXT, SENTENCES)
        place = 0
        for sentence, row in zip(SENTENCES, found, strict=True):
            end = place + len(sentence)
            own = [n for n, (first, last) in enumerate(offsets) if last > first and first < end and last > place]
            assert np.array_equal(row, normalized(rows[own]))
            place = end + 1
        spans = [(TEXT.index(sentence), TEXT.index(sentence) + len(sentence)) for sentence in SENTENCES]
        assert np.array_equal(model.encode_chunks(TEXT, spans), found)
        assert np.array_equal(model.encode_chunks(TEXT, np.array(spans)), found)
        both = model.encode_chunks([SHORT, TEXT], [[], spans])
        assert both[0].shape == (0, 384) and np.array_equal(both[1], found)
        # All of a text but what is around it; a part alone has read less.
        whole = model.encode_chunks(TEXT, [(0, len(TEXT))])
        assert np.array_equal(whole[0], normalized(rows[1:-1]))
        assert np.abs(found[1] - model.encode_chunks(SENTENCES[1], [SENTENCES[1]])[0]).max() > 0.01
        prompted = model.encode_chunks(TEXT, SENTENCES, prompt="query: ")
        tokens = model.encode(TEXT, output_value="token_embeddings", prompt="query: ")
        assert np.array_equal(prompted[0], normalized(tokens[3 : 3 + 7]))
        short = model.encode_chunks(TEXT, SENTENCES, truncate_dim=8, normalize_embeddings=True)
        assert np.abs(np.linalg.norm(short, axis=1) - 1).max() < 1e-6 and short.shape == (5, 8)
    finally:
        model.max_seq_length = LIMIT


def normalized(rows: np.ndarray) -> np.ndarray:
    from grilly.tensors import normalize_rows

    return normalize_rows((rows.astype(np.float64).sum(axis=0) / len(rows)).astype(np.float32)[None])[0]


def test_chunks_of_a_long_text_are_of_its_windows(model: SentenceTransformer) -> None:
    rows = model.encode(TEXT, output_value="token_embeddings", windows=6)
    found = model.encode_chunks(TEXT, [(0, len(TEXT)), *SENTENCES], windows=6)
    assert np.array_equal(found[0], normalized(rows[1:-1])) and len(found) == 6
    with pytest.raises(InvalidArgumentError, match=r"texts\[1\] has more than max_seq_length = 16 tokens; windows=64"):
        model.encode_chunks([SHORT, TEXT], [[(0, 3)], SENTENCES])


def test_bad_spans_are_told(model: SentenceTransformer) -> None:
    text = "One.   Two."
    for spans, kind, problem in [
        ([(0, 12)], InvalidArgumentError, r"spans\[0\]\[0\] is 0 to 12, expected a part of 11 characters"),
        ([(-1, 2)], InvalidArgumentError, r"spans\[0\]\[0\] is -1 to 2"),
        ([(2, 2)], InvalidArgumentError, r"spans\[0\]\[0\] is 2 to 2"),
        (
            ["One.", "Three."],
            InvalidArgumentError,
            r"spans\[0\]\[1\] is 'Three.', which is not in the text after character 4",
        ),
        (["Two.", "One."], InvalidArgumentError, "which is not in the text after character 11"),
        ([""], InvalidArgumentError, "which is not in the text"),
        ([(0, 4), (5, 6)], InvalidArgumentError, r"spans\[0\]\[1\] has no token"),
        ([(0, 1.5)], InvalidTypeError, r"spans\[0\]\[0\]"),
        ([3], InvalidTypeError, r"spans\[0\]\[0\] is 3, expected \(start, end\) or a part"),
        ("One.", InvalidTypeError, "spans is of type str"),
    ]:
        with pytest.raises(kind, match=problem):
            model.encode_chunks(text, spans)
    with pytest.raises(InvalidArgumentError, match="2 texts and 1 lists of spans"):
        model.encode_chunks([text, text], [[(0, 1)]])
    with pytest.raises(InvalidTypeError, match="text is of type int"):
        model.encode_chunks([3], [[(0, 1)]])
