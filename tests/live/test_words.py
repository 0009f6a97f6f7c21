"""SparseEncoders beside sentence-transformers' own: weights, words, similarities, kinds of results."""

import numpy as np
import pytest
import scipy.sparse
import sentence_transformers
import torch
from models import families, heads
from models.golden import per_text

from grilly import SparseEncoder
from grilly.errors import UnsupportedNameError
from grilly.sparse import SparseRows

FLOAT32 = 1e-5
NARROW = 1.5  # times the largest error of theirs in the same type, both from float64
ALL = {"max_active_dims": 9999}


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(families.FIXTURES / "heads.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def sentences(golden, texts) -> list[str]:
    return [*map(str, golden["texts"]), *texts[1::20]]


@pytest.fixture(scope="module", params=heads.table()["words"])
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(name, tmp_path_factory):
    return heads.build("words", name, tmp_path_factory.mktemp("words"))


def load(folder, dtype) -> sentence_transformers.SparseEncoder:
    return sentence_transformers.SparseEncoder(str(folder), device="cpu", model_kwargs={"dtype": dtype})


def dense(model, texts) -> np.ndarray:
    return np.asarray(model.encode(texts, convert_to_sparse_tensor=False, **ALL), np.float64)


@pytest.fixture(scope="module")
def exact(folder, sentences) -> np.ndarray:
    return dense(load(folder, torch.float32).double(), sentences)


def largest(rows, exact: np.ndarray) -> float:
    return np.abs(rows - exact).max() / np.abs(exact).max()


def test_golden_file_is_what_this_version_answers(folder, name, golden, exact):
    rows = golden[f"words/{name}/rows"]
    assert largest(rows, exact[: len(rows)]) <= 1e-7  # the file's numbers are rounded to float32
    theirs = load(folder, torch.float32)
    assert theirs.max_seq_length == golden[f"words/{name}/limit"]
    ids = [theirs.preprocess([str(text)])["input_ids"][0].tolist() for text in golden["texts"][: len(rows)]]
    assert ids == per_text(golden[f"words/{name}/ids"])


def test_weights(folder, device, sentences, exact):
    with SparseEncoder(folder, device=device, dtype="float32") as ours:
        assert ours.backend == device
        assert largest(dense(ours, sentences), exact) <= FLOAT32


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_types(folder, device, dtype, sentences, exact):
    theirs = load(folder, getattr(torch, dtype))
    expected = theirs.encode(sentences, convert_to_sparse_tensor=False, **ALL).double().numpy()
    with SparseEncoder(folder, device=device, dtype=dtype) as ours:
        assert largest(dense(ours, sentences), exact) <= NARROW * largest(expected, exact)


def test_tensors_words_and_similarities(folder, sentences):
    theirs, some = load(folder, torch.float32), sentences[:9]
    with SparseEncoder(folder, device="cpu", dtype="float32") as ours:
        assert ours.similarity_fn_name == theirs.similarity_fn_name and ours.max_active_dims == theirs.max_active_dims
        assert ours.get_embedding_dimension() == theirs.encode("a").shape[0]
        for options in ({}, {"convert_to_sparse_tensor": False}):
            left = ours.encode(some, convert_to_tensor=True, **options, **ALL)
            right = theirs.encode(some, **options, **ALL)
            assert left.shape == right.shape and left.dtype == right.dtype and left.layout == right.layout
            assert torch.allclose(left.to_dense(), right.to_dense(), atol=1e-4)
        single = ours.encode(some[0], convert_to_tensor=True)
        assert single.shape == theirs.encode(some[0]).shape and single.is_sparse
        rows, tensors = ours.encode(some, **ALL), theirs.encode(some, **ALL)
        scores, expected = ours.similarity(rows, rows), theirs.similarity(tensors, tensors)
        assert np.abs(scores - expected.numpy()).max() <= 1e-4 * expected.max()
        mixed = ours.similarity(ours.encode(some, convert_to_tensor=True, **ALL), rows)
        assert isinstance(mixed, torch.Tensor) and np.abs(mixed.numpy() - scores).max() <= 1e-5 * scores.max()
        # On the same numbers: words whose weights differ by less than rounding may change places.
        same = SparseRows.of(tensors.to_dense().numpy())
        assert weighed(ours.decode(same, top_k=5)) == weighed(theirs.decode(tensors, top_k=5))
        shared = theirs.intersection(tensors[0], tensors)
        assert np.allclose(ours.intersection(same[0], same).toarray(), shared.to_dense().numpy())
        assert torch.equal(ours.intersection(tensors[0], tensors).to_dense(), shared.to_dense())
        assert ours.sparsity(same) == pytest.approx(theirs.sparsity(tensors))
        matrix = scipy.sparse.csr_array((rows.values, rows.columns, rows.starts), rows.shape)
        assert np.array_equal(matrix.toarray(), rows.toarray())
        for method in ("encode_query", "encode_document"):
            left, right = (getattr(model, method)(some, **ALL) for model in (ours, theirs))
            assert np.abs(left.toarray() - right.to_dense().numpy()).max() <= 1e-4


def weighed(words) -> list[list[tuple[float, str]]]:
    """Words by weight, equal weights by name."""
    return [sorted((-weight, word) for word, weight in row) for row in words]


def test_public_names_are_here_or_refused(tmp_path):
    """Every public name of theirs is here, or says what to do in its place."""
    theirs = set(dir(sentence_transformers.SparseEncoder)) - set(dir(torch.nn.Sequential))
    with SparseEncoder(heads.build("words", "bert", tmp_path), device="cpu") as ours:
        for name in sorted(name for name in theirs if not name.startswith("_")):
            try:
                getattr(ours, name)
            except UnsupportedNameError as error:
                assert f"SparseEncoder.{name} is left out: " in str(error)
