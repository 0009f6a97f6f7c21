"""`grilly.distill` against float64: the tokens, their vectors, and folders that it cannot make."""

import json

import numpy as np
import pytest
from models import families, safetensors_file
from models.reference import Bert

import grilly
from grilly import errors

WORDS = ["zebra", "a phrase of words", "the", "Zebra", "  ", "don't"]


def made(model, folder, *arguments, **options):
    """The folder's table, and the content of its tokenizer.json."""
    place = grilly.distill(model, *arguments, folder=folder, **options) / "0_StaticEmbedding"
    tokenizer = json.loads((place / "tokenizer.json").read_text(encoding="utf-8"))
    return safetensors_file.read(place / "model.safetensors")["embedding.weight"], tokenizer


def analysed(rows: np.ndarray, columns: int) -> np.ndarray:
    """Scores in principal components, by a singular value decomposition."""
    centred = rows - rows.mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    scores = (left * values)[:, :columns]
    return scores * np.sign(scores[np.abs(scores).argmax(axis=0), np.arange(columns)])


def zipf(count: int, number: float) -> np.ndarray:
    shares = np.array([1 / (rank + 2) for rank in range(count)])
    return number / (number + shares / shares.sum())


@pytest.fixture(scope="module")
def own(tiny_model):
    """The vocabulary of the model, and its hidden states of a row of ids in float64."""
    content = json.loads((tiny_model / "tokenizer.json").read_text(encoding="utf-8"))
    return content["model"]["vocab"], Bert(tiny_model)


def test_vectors_and_tokens(model, own, tmp_path):
    vocabulary, states = own
    table, tokenizer = made(model, tmp_path / "made", WORDS, 16, sif_coefficient=1e-2)
    left = [t for t in sorted(vocabulary, key=vocabulary.get) if t not in ("[CLS]", "[SEP]", "[MASK]")]
    left = [token for token in left if not token.startswith("[unused")]
    known = [word for word in ("zebra",) if word not in vocabulary]
    tokens = [*left, *known, "a phrase of words", "don't"]
    assert tokenizer["model"]["vocab"] == {token: number for number, token in enumerate(tokens)}
    assert [t["content"] for t in tokenizer["added_tokens"] if not t["special"]] == tokens[-2:]
    assert tokenizer["post_processor"] is None and tokenizer["truncation"]["max_length"] == 512
    ids = [
        [vocabulary["[CLS]"], vocabulary[token], vocabulary["[SEP]"]]
        if token in left
        else model.tokenizer.encode(token)
        for token in tokens
    ]
    rows = np.stack([states(row).mean(axis=0) for row in ids])
    expected = analysed(rows, 16) * zipf(len(tokens), 1e-2)[:, None]
    expected[tokens.index("[UNK]")] = 0
    assert table.shape == expected.shape and np.abs(table - expected).max() <= 1e-5 * np.abs(expected).max()


def test_embeddings_of_the_folder(model, own, tmp_path, device):
    table, tokenizer = made(model, tmp_path / "made", ["a phrase of words"], 16)
    numbers = tokenizer["model"]["vocab"]
    texts = {
        "the a": ["the", "a"],
        "a phrase of words the": ["a phrase of words", "the"],
        "☃ the": ["[UNK]", "the"],
        "": [],
    }
    with grilly.SentenceTransformer(tmp_path / "made", device="cpu" if device == "cpu" else "cuda") as static:
        assert static.max_seq_length == 512 and static.normalize
        for text, tokens in texts.items():
            total = sum((table[numbers[token]].astype(np.float64) for token in tokens), np.zeros(16))
            assert np.abs(static.encode(text) - total / max(np.linalg.norm(total), 1e-12)).max() <= 1e-6, text


@pytest.mark.parametrize("pooling", ["first", "last", "model"])
def test_poolings(model, own, tmp_path, pooling):
    vocabulary, states = own
    table, tokenizer = made(model, tmp_path / "made", None, None, sif_coefficient=None, pooling=pooling)
    for token in ("the", "a", "##s"):
        if token not in vocabulary:
            continue
        row = states([vocabulary["[CLS]"], vocabulary[token], vocabulary["[SEP]"]])
        expected = {"first": row[0], "last": row[-1], "model": row.mean(axis=0)}[pooling]
        assert np.abs(table[tokenizer["model"]["vocab"][token]] - expected).max() <= 1e-5


def test_dimensions(cpu_model, tmp_path, caplog):
    def columns(*arguments):
        return made(cpu_model, tmp_path / "made", None, *arguments, overwrite=True)[0]

    whole = columns("auto")
    assert whole.shape[1] == 32 and columns(None).shape[1] == 32
    assert columns(99).shape[1] == 32 and "as many are kept" in caplog.text
    centred = columns(None) / zipf(len(whole), 1e-4)[:, None]
    half = columns(0.5)
    variances = np.linalg.eigvalsh(np.cov(np.delete(centred, 0, 0).T))[::-1]
    explained = np.cumsum(variances) / variances.sum()
    assert 1 <= half.shape[1] < 32 and explained[half.shape[1] - 1] >= 0.45
    assert np.array_equal(columns(8), whole[:, :8])
    narrow, _ = made(cpu_model, tmp_path / "narrow", None, 8, dtype="float16")
    assert narrow.dtype == np.float16 and np.abs(narrow - whole[:, :8]).max() <= 1e-3 * np.abs(whole).max()


def test_one_result_of_one_machine(cpu_model, tiny_model, tmp_path):
    first, again, named = (tmp_path / name for name in ("first", "again", "named"))
    made(cpu_model, first, WORDS, 16)
    made(cpu_model, again, WORDS, 16, batch_size=3)
    grilly.distill(tiny_model, WORDS, 16, folder=named)
    for file in (path.relative_to(first) for path in first.rglob("*") if path.is_file()):
        assert (first / file).read_bytes() == (again / file).read_bytes(), file
    assert sorted(path.name for path in named.iterdir()) == sorted(path.name for path in first.iterdir())


@pytest.mark.parametrize("name", ["xlm-roberta", "roberta", "gpt2", "modernbert", "albert", "mpnet"])
def test_tokenizers_of_each_kind(name, tmp_path, texts):
    """A text's tokens are the model's, without those around it; of BPE a space begins each text, too."""
    folder = families.build(name, tmp_path)
    with grilly.SentenceTransformer(folder, device="cpu") as model:
        table, tokenizer = made(model, tmp_path / "made", None, 8)
        bytes_ = "ByteLevel" in json.dumps(tokenizer["pre_tokenizer"])
        with grilly.SentenceTransformer(tmp_path / "made", device="cpu") as static:
            for text in texts[:60]:
                words = " " + text if bytes_ and text and text[0] != " " else text
                expected = model.tokenizer.tokenize(words)
                found = static.tokenizer.tokenize(text)
                if not {*model.tokenizer.all_special_tokens} & {*expected}:
                    assert found == expected, text
            assert table.shape == (len(static.tokenizer), 8)


def test_words_of_a_tokenizer_with_scores(tmp_path):
    folder = families.build("xlm-roberta", tmp_path)
    with grilly.SentenceTransformer(folder, device="cpu") as model:
        _, tokenizer = made(model, tmp_path / "made", ["zebrafish", "New York"], 8)
    pieces = tokenizer["model"]["vocab"]
    assert pieces[-2][0] == "▁zebrafish" and pieces[-2][1] == min(score for _, score in pieces)
    assert tokenizer["added_tokens"][-1]["content"] == pieces[-1][0]
    assert pieces[tokenizer["model"]["unk_id"]][0] == "<unk>"
    with grilly.SentenceTransformer(tmp_path / "made", device="cpu") as static:
        assert "▁zebrafish" in static.tokenizer.tokenize("a zebrafish")


def test_what_is_refused(cpu_model, tiny_model, tmp_path):
    def refused(kind, part, *arguments, **options):
        with pytest.raises(kind, match=part):
            grilly.distill(options.pop("model", cpu_model), *arguments, **{"folder": tmp_path / "none"} | options)
        assert not (tmp_path / "none").exists()

    refused(errors.InvalidTypeError, "vocabulary", "words")
    refused(errors.InvalidTypeError, "vocabulary", [3])
    refused(errors.InvalidTypeError, "model", model=3)
    refused(errors.InvalidArgumentError, "dimensions", None, 0)
    refused(errors.InvalidArgumentError, "dimensions", None, 1.5)
    refused(errors.InvalidArgumentError, "dimensions", None, "all")
    refused(errors.InvalidArgumentError, "sif_coefficient", sif_coefficient=1.0)
    refused(errors.InvalidArgumentError, "token_remove_pattern", token_remove_pattern="(")
    refused(errors.InvalidArgumentError, "no token is left", token_remove_pattern="")
    refused(errors.InvalidArgumentError, "pooling", pooling="max")
    refused(errors.InvalidArgumentError, "dtype", dtype="int8")
    refused(errors.InvalidArgumentError, "max_length", max_length=0)
    with grilly.SentenceTransformer(tiny_model, device="cpu", numerics="everywhere") as model:
        refused(errors.UnsupportedError, 'numerics="everywhere".*eigenvectors', model=model)
    with grilly.SentenceTransformer(families.build("roberta", tmp_path), device="cpu") as model:
        refused(errors.UnsupportedError, "BPE.*leave vocabulary out", ["zebrafish"], model=model)
    grilly.distill(cpu_model, folder=tmp_path / "there")
    with pytest.raises(errors.InvalidArgumentError, match="model.safetensors"):
        grilly.distill(cpu_model, folder=tmp_path / "there")
