"""`HybridEncoder`: arguments, scores, and folders that it cannot use."""

import pickle

import numpy as np
import pytest
from models import hybrid, torch_file

from grilly import HybridEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder, errors

TEXTS = ["a dog and the cat", "", "one two three", "a dog"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return hybrid.build(tmp_path_factory.mktemp("hybrid") / "model")


@pytest.fixture(scope="module")
def model(folder):
    with HybridEncoder(folder, device="cpu") as model:
        yield model


def test_parts_that_are_not_wanted(model):
    found = model.encode(TEXTS, return_sparse=False, return_colbert_vecs=False)
    assert found["lexical_weights"] is None and found["colbert_vecs"] is None
    whole = model.encode(sentences=TEXTS)
    assert np.array_equal(found["dense_vecs"], whole["dense_vecs"])
    assert model.encode(TEXTS, return_dense=False)["dense_vecs"] is None
    none = model.encode([])
    assert none["dense_vecs"].shape == (0, 36) and none["lexical_weights"] == none["colbert_vecs"] == []
    assert np.array_equal(model.encode_query(TEXTS)["dense_vecs"], whole["dense_vecs"])


def test_a_limit_of_tokens(model):
    text = "one two three four five six seven"
    short, whole = model.encode(text, max_length=5), model.encode(text)
    assert len(short["colbert_vecs"]) == 4 and len(whole["colbert_vecs"]) > 4
    limited = HybridEncoder(model.model_name, device="cpu", max_seq_length=5)
    with limited:
        expected = limited.encode(text)
    assert np.array_equal(short["dense_vecs"], expected["dense_vecs"])
    assert short["lexical_weights"] == expected["lexical_weights"]
    assert np.array_equal(model.encode(text, max_length=10**6)["dense_vecs"], whole["dense_vecs"])
    prompted = model.encode(text, prompt="a dog ", max_length=5)
    assert prompted["lexical_weights"] == limited_to(model, "a dog " + text, 5)


def limited_to(model, text, most):
    return model.encode(text, max_length=most)["lexical_weights"]


def test_scores_of_pairs(model):
    """FlagEmbedding's formulas, in float64."""
    pairs = [("a dog", "a dog and the cat"), ("one two", "two three"), ("a cat", "")]
    weights = [0.4, 0.2, 0.4]
    found = model.compute_score(pairs, weights_for_different_modes=weights)
    assert list(found) == ["colbert", "sparse", "dense", "sparse+dense", "colbert+sparse+dense"]
    for place, (query, document) in enumerate(pairs):
        q, d = model.encode(query), model.encode(document)
        dense = float(q["dense_vecs"].astype(np.float64) @ d["dense_vecs"].astype(np.float64))
        shared = set(q["lexical_weights"]) & set(d["lexical_weights"])
        sparse = sum(q["lexical_weights"][token] * d["lexical_weights"][token] for token in shared)
        products = q["colbert_vecs"].astype(np.float64) @ d["colbert_vecs"].astype(np.float64).T
        late = products.max(axis=1).mean()
        expected = [late, sparse, dense, (0.2 * sparse + 0.4 * dense) / 0.6, 0.4 * late + 0.2 * sparse + 0.4 * dense]
        assert np.abs(np.array([values[place] for values in found.values()]) - expected).max() <= 1e-6
    single = model.compute_score(pairs[0], weights_for_different_modes=weights)
    assert {name: values[0] for name, values in found.items()} == single
    every = model.similarity(model.encode([a for a, _ in pairs]), model.encode([b for _, b in pairs]), weights)
    for name, values in found.items():
        assert every[name].shape == (3, 3) and np.abs(np.diag(every[name]) - values).max() <= 1e-7
    plain = model.compute_score(pairs[0])
    assert abs(plain["colbert+sparse+dense"] - np.mean([plain["colbert"], plain["sparse"], plain["dense"]])) <= 1e-12
    assert model.compute_score([]) == {name: [] for name in found}


def test_scores_of_parts(model):
    q, d = model.encode(TEXTS[0]), model.encode(TEXTS[3])
    score = model.compute_lexical_matching_score(q["lexical_weights"], d["lexical_weights"])
    both = model.compute_lexical_matching_score([q["lexical_weights"]], [d["lexical_weights"], {}])
    assert both.tolist() == [[score, 0.0]]
    whole = model.similarity(q, d)
    assert whole["sparse"].shape == (1, 1) and whole["sparse"][0, 0] == score
    assert model.colbert_score(q["colbert_vecs"], d["colbert_vecs"]) == pytest.approx(whole["colbert"][0, 0], abs=1e-7)
    words = model.convert_id_to_token([q["lexical_weights"], {}])
    assert list(words[0].values()) == list(q["lexical_weights"].values()) and words[1] == {}


def test_what_calls_refuse(model):
    with pytest.raises(errors.InvalidArgumentError, match="weights_for_different_modes"):
        model.compute_score(("a", "b"), weights_for_different_modes=[1, 2])
    with pytest.raises(errors.InvalidArgumentError, match="must not be 0"):
        model.compute_score(("a", "b"), weights_for_different_modes=[0, 0, 1])
    with pytest.raises(errors.InvalidArgumentError, match="single texts"):
        model.compute_score(["a", "b", "c"])
    with pytest.raises(errors.InvalidArgumentError, match="b has no lexical_weights"):
        model.similarity(model.encode(["a"]), model.encode(["a"], return_sparse=False))
    with pytest.raises(errors.InvalidTypeError, match="return_dense"):
        model.encode("a", return_dense=1)
    with pytest.raises(errors.InvalidArgumentError, match="max_length"):
        model.encode("a", max_length=0)
    with pytest.raises(errors.InvalidTypeError):
        model.encode(["a", 3])


def test_a_pickled_copy_and_another_type(folder):
    with SparseEncoder(folder, device="cpu") as sparse, pickle.loads(pickle.dumps(sparse)) as copy:
        assert np.array_equal(copy.encode(TEXTS).toarray(), sparse.encode(TEXTS).toarray())
        assert sparse.half().encode(TEXTS).dtype == np.float16
    with HybridEncoder(folder, device="cpu") as hybrid_model:
        assert "Products(colbert_linear.pt 24, sparse_linear.pt 1)" in repr(hybrid_model)
        hybrid_model.close()
        with pytest.raises(errors.UnusableError):
            hybrid_model.encode("a")


@pytest.mark.parametrize("kind", [HybridEncoder, SparseEncoder, MultiVectorEncoder])
@pytest.mark.parametrize("lacking", [hybrid.VECTORS, hybrid.WEIGHTS])
def test_a_missing_file(tmp_path, kind, lacking):
    folder = hybrid.build(tmp_path / "model")
    (folder / lacking).unlink()
    with pytest.raises(errors.ModelFormatError, match=f"holds no {lacking}.*fetch the repository anew"):
        kind(folder, device="cpu")
    with SentenceTransformer(folder, device="cpu") as dense:
        assert dense.encode("a").shape == (36,)


BAD = {
    "rows": (hybrid.WEIGHTS, {"weight": np.ones((2, 36), np.float32), "bias": np.ones(2, np.float32)}, "2 rows"),
    "axes": (hybrid.VECTORS, {"weight": np.ones(36, np.float32), "bias": np.ones(1, np.float32)}, r"has shape \[36\]"),
    "name": (hybrid.VECTORS, {"kernel": np.ones((4, 36), np.float32)}, "weight is missing"),
    "columns": (hybrid.VECTORS, {"weight": np.ones((4, 35), np.float32), "bias": np.ones(4, np.float32)}, "35"),
    "bias": (hybrid.VECTORS, {"weight": np.ones((4, 36), np.float32)}, "colbert_linear.pt/bias"),
    "more": (
        hybrid.WEIGHTS,
        {"weight": np.ones((1, 36), np.float32), "bias": np.ones(1, np.float32), "scale": np.ones(1, np.float32)},
        "sparse_linear.pt/scale",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_of_another_form(tmp_path, name):
    folder = hybrid.build(tmp_path / "model")
    file, tensors, part = BAD[name]
    torch_file.write(folder / file, tensors)
    with pytest.raises(errors.ModelFormatError, match=part) as caught:
        HybridEncoder(folder, device="cpu")
    assert file in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path):
    folder = hybrid.build(tmp_path / "model")
    data = (folder / hybrid.VECTORS).read_bytes()
    for content in (b"", data[: len(data) // 2], b"no archive" * 9):
        (folder / hybrid.VECTORS).write_bytes(content)
        with pytest.raises(errors.ModelFormatError, match=hybrid.VECTORS):
            HybridEncoder(folder, device="cpu")
    torch_file.write(folder / hybrid.VECTORS, hybrid.products()[hybrid.VECTORS] | {"weight": np.full((24, 36), np.nan)})
    with pytest.raises(errors.NotFiniteError), HybridEncoder(folder, device="cpu") as model:
        model.encode("a")


@pytest.mark.parametrize("kind", [SparseEncoder, MultiVectorEncoder])
def test_parts_are_not_saved(folder, tmp_path, kind):
    with kind(folder, device="cpu") as part, pytest.raises(errors.UnsupportedError, match="copy the folder"):
        part.save_pretrained(tmp_path / "saved")
