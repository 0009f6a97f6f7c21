"""CrossEncoders beside sentence-transformers' own: logits, scores, ranks, tokens, activation functions."""

import numpy as np
import pytest
import sentence_transformers
import torch
from models import families, heads
from models.golden import per_text

from grilly import CrossEncoder
from grilly.errors import UnsupportedNameError

FLOAT32 = 1e-5
NARROW = 1.5  # times the largest error of theirs in the same type, both from float64
LOGITS = torch.nn.Identity()


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(families.FIXTURES / "heads.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def pairs(golden, texts) -> list[tuple[str, str]]:
    """The golden file's pairs, and a part of the 200 texts."""
    return [*((str(a), str(b)) for a, b in golden["pairs"]), *zip(texts[1::20], texts[5::20], strict=True)]


@pytest.fixture(scope="module", params=heads.table()["scores"])
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(name, tmp_path_factory):
    return heads.build("scores", name, tmp_path_factory.mktemp("scores"))


@pytest.fixture(scope="module")
def reference(name, tmp_path_factory):
    return heads.build_for_reference("scores", name, tmp_path_factory.mktemp("reference"))


def load(folder, dtype) -> sentence_transformers.CrossEncoder:
    model = sentence_transformers.CrossEncoder(str(folder), device="cpu", model_kwargs={"dtype": dtype})
    return families.whole_type(model, folder, dtype)


def batch_of(folder) -> dict[str, int]:
    """The arguments for batches in which the reference's numbers depend on no other pair."""
    return {"batch_size": heads.batch_size(folder.name) or 32}


def logits(model, pairs, batch_size: int = 32) -> np.ndarray:
    found = model.predict(pairs, activation_fn=LOGITS, convert_to_tensor=True, batch_size=batch_size)
    return found.double().numpy().reshape(len(pairs), -1)


@pytest.fixture(scope="module")
def exact(reference, pairs) -> np.ndarray:
    return logits(load(reference, torch.float32).double(), pairs, **batch_of(reference))


def largest(rows, exact: np.ndarray) -> float:
    return np.abs(np.asarray(rows, np.float64) - exact).max() / np.abs(exact).max()


def test_golden_file_is_what_this_version_answers(reference, name, golden, exact):
    rows = golden[f"scores/{name}/rows"]
    assert largest(rows, exact[: len(rows)]) <= 1e-7  # the file's numbers are rounded to float32
    theirs = load(reference, torch.float32)
    assert theirs.max_seq_length == golden[f"scores/{name}/limit"]
    ids = [theirs.preprocess([list(map(str, pair))])["input_ids"][0].tolist() for pair in golden["pairs"]]
    assert ids == per_text(golden[f"scores/{name}/ids"])


def test_logits_and_tokens(folder, reference, device, pairs, exact):
    theirs = load(reference, torch.float32)
    with CrossEncoder(folder, device=device, dtype="float32") as ours:
        assert ours.backend == device and ours.num_labels == theirs.num_labels
        assert largest(logits(ours, pairs), exact) <= FLOAT32
        ids, segments = ours._core.tokenize_pairs(*map(list, zip(*pairs, strict=True)))
    for pair, own, segment in zip(pairs, ids, segments, strict=True):
        features = theirs.preprocess([list(pair)])
        assert own == features["input_ids"][0].tolist(), pair
        if "token_type_ids" in features:
            assert segment == features["token_type_ids"][0].tolist(), pair


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_types(folder, reference, device, dtype, pairs, exact):
    expected = logits(load(reference, getattr(torch, dtype)), pairs, **batch_of(reference))
    with CrossEncoder(folder, device=device, dtype=dtype) as ours:
        assert largest(logits(ours, pairs), exact) <= NARROW * largest(expected, exact)


def test_scores_ranks_and_types(folder, reference, name, pairs):
    """With no dtype given, both have the type of the checkpoint."""
    theirs = sentence_transformers.CrossEncoder(str(reference), device="cpu")
    with CrossEncoder(folder, device="cpu") as ours:
        assert f"torch.{ours.dtype}" == str(theirs.dtype)
        near = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 8e-2}[ours.dtype]
        # Only there logits reach 113, of which float32 keeps 1e-5: the bound is of them, whatever the activation.
        large = name == "mobilebert-plain"
        scale = float(np.abs(logits(theirs, pairs, **batch_of(reference))).max()) if large else 1.0
        for options in ({}, {"activation_fn": torch.tanh}, {"apply_softmax": True}, {"convert_to_tensor": True}):
            left, right = (model.predict(pairs, **options, **batch_of(reference)) for model in (ours, theirs))
            assert type(left) is type(right) and left.shape == right.shape and left.dtype == right.dtype
            bound = near * max(1.0, scale, np.abs(np.asarray(right)).max())
            assert np.abs(np.asarray(left) - np.asarray(right)).max() <= bound
        for one in (pairs[0], list(pairs[0]), "a dog"):
            left, right = ours.predict(one), theirs.predict(one)
            assert np.shape(left) == np.shape(right) and np.abs(left - right).max() <= near * scale
        documents = [second for _, second in pairs[:20]]
        if theirs.num_labels == 1 and ours.dtype == "float32":
            options = {"top_k": 9, "return_documents": True} | batch_of(reference)
            left, right = (model.rank("a dog", documents, **options) for model in (ours, theirs))
            assert [row["corpus_id"] for row in left] == [row["corpus_id"] for row in right]
            assert [row.keys() for row in left] == [row.keys() for row in right]
            assert [row["text"] for row in left] == [row["text"] for row in right]


def test_public_names_are_here_or_refused(tmp_path):
    """Every public name of theirs is here, or says what to do in its place."""
    theirs = set(dir(sentence_transformers.CrossEncoder)) - set(dir(torch.nn.Sequential))
    with CrossEncoder(heads.build("scores", "bert", tmp_path), device="cpu") as ours:
        for name in sorted(name for name in theirs if not name.startswith("_")):
            try:
                getattr(ours, name)
            except UnsupportedNameError as error:
                assert f"CrossEncoder.{name} is left out: " in str(error)
