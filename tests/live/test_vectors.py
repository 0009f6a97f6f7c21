"""MultiVectorEncoders beside sentence-transformers' own: vectors, tokens, scores, kinds of results."""

import numpy as np
import pytest
import sentence_transformers
import torch
from models import families, heads
from models.golden import per_text
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform
from sentence_transformers import util as theirs_util
from sentence_transformers.multi_vector_encoder import modules as theirs_pooling

from grilly import MultiVectorEncoder, util, ward
from grilly.errors import UnsupportedNameError
from grilly.token_pooling import HierarchicalTokenPooling

FLOAT32 = 1e-5
NARROW = 1.5  # times the largest error of theirs in the same type, both from float64
SIDES = ("query", "document")


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(families.FIXTURES / "heads.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def sentences(golden, texts) -> list[str]:
    return [*map(str, golden["texts"]), *texts[1::20]]


@pytest.fixture(scope="module", params=heads.table()["vectors"])
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(name, tmp_path_factory):
    return heads.build("vectors", name, tmp_path_factory.mktemp("vectors"))


def load(folder, dtype) -> sentence_transformers.MultiVectorEncoder:
    return sentence_transformers.MultiVectorEncoder(str(folder), device="cpu", model_kwargs={"dtype": dtype})


def both_sides(model, texts) -> list[np.ndarray]:
    """The vectors of all texts as queries, then as documents."""
    found = [*model.encode_query(texts), *model.encode_document(texts)]
    return [(rows.double().numpy() if isinstance(rows, torch.Tensor) else rows.astype(np.float64)) for rows in found]


@pytest.fixture(scope="module")
def exact(folder, sentences) -> list[np.ndarray]:
    return both_sides(load(folder, torch.float32).double(), sentences)


def largest(found: list[np.ndarray], exact: list[np.ndarray]) -> float:
    assert [rows.shape for rows in found] == [rows.shape for rows in exact]
    rows, expected = np.concatenate(found), np.concatenate(exact)
    return np.abs(rows - expected).max() / np.abs(expected).max()


def test_golden_file_is_what_this_version_answers(folder, name, golden, exact):
    counts = golden[f"vectors/{name}/counts"]
    some = counts.shape[1]
    expected = np.split(golden[f"vectors/{name}/rows"].astype(np.float64), np.cumsum(counts.ravel())[:-1])
    assert largest(expected, [*exact[:some], *exact[len(exact) // 2 :][:some]]) <= 1e-7
    theirs = load(folder, torch.float32)
    assert theirs.max_seq_length == golden[f"vectors/{name}/limit"]
    texts, ids = [str(text) for text in golden["texts"][:some]], []
    for side in SIDES:
        for text in texts:
            features = theirs.preprocess([text], prompt=theirs.prompts[side], task=side)
            ids.append(features["input_ids"][0].tolist())
    assert ids == per_text(golden[f"vectors/{name}/ids"])


def test_vectors(folder, device, sentences, exact):
    with MultiVectorEncoder(folder, device=device, dtype="float32") as ours:
        assert ours.backend == device
        assert largest(both_sides(ours, sentences), exact) <= FLOAT32


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_types(folder, device, dtype, sentences, exact):
    expected = both_sides(load(folder, getattr(torch, dtype)), sentences)
    with MultiVectorEncoder(folder, device=device, dtype=dtype) as ours:
        assert largest(both_sides(ours, sentences), exact) <= NARROW * largest(expected, exact)


def test_scores_and_kinds_of_results(folder, sentences):
    theirs, some = load(folder, torch.float32), sentences[:9]
    with MultiVectorEncoder(folder, device="cpu", dtype="float32") as ours:
        assert ours.similarity_fn_name == theirs.similarity_fn_name
        assert ours.get_embedding_dimension() == theirs.get_embedding_dimension()
        assert {key: text or "" for key, text in theirs.prompts.items()} == ours.prompts
        left, right = (model.encode_query(some, **options) for model, options in pairs_of(ours, theirs))
        assert all(a.dtype == b.dtype and a.shape == b.shape for a, b in zip(left, right, strict=True))
        assert ours.encode_query(some[0]).shape == tuple(theirs.encode_query(some[0]).shape)
        arrays = theirs.encode_document(some, convert_to_numpy=True)
        for options in ({}, {"normalize_embeddings": True}, {"prompt": "the "}):
            found = ours.encode_document(some, **options)
            expected = theirs.encode_document(some, convert_to_numpy=True, **options)
            assert all(np.abs(a - b).max(initial=0) <= FLOAT32 for a, b in zip(found, expected, strict=True))
        for task in (None, "query", "document", "other"):
            found, expected = (model.encode(some, task=task, convert_to_numpy=True) for model in (ours, theirs))
            assert all(np.abs(a - b).max(initial=0) <= FLOAT32 for a, b in zip(found, expected, strict=True)), task
        scores, expected = ours.similarity(right, arrays), theirs.similarity(right, arrays)
        assert isinstance(scores, torch.Tensor) and torch.allclose(scores, expected, rtol=1e-5)
        assert torch.allclose(
            ours.similarity_pairwise(right, arrays), theirs.similarity_pairwise(right, arrays), rtol=1e-5
        )
        ranks = np.argsort(
            -theirs.similarity(theirs.encode_query(some[:1]), theirs.encode_document(some))[0], stable=True
        )
        assert [row["corpus_id"] for row in ours.rank(some[0], some)] == ranks.tolist()


def pairs_of(ours, theirs):
    return (ours, {"convert_to_tensor": True}), (theirs, {})


@pytest.mark.parametrize("name", ["maxsim", "mean_maxsim", "maxsim_pairwise", "mean_maxsim_pairwise"])
def test_functions_of_util(name):
    chance = torch.Generator().manual_seed(3)
    queries, documents = ([torch.randn(n, 24, generator=chance) for n in each] for each in ((3, 8, 1), (5, 2, 9)))
    padded = [torch.nn.utils.rnn.pad_sequence(each, batch_first=True) for each in (queries, documents)]
    masks = {"a_mask": torch.rand(3, 8, generator=chance) > 0.4, "b_mask": torch.rand(3, 9, generator=chance) > 0.4}
    empty = [torch.zeros(0, 24), *documents[1:]]
    for arguments, options in (
        ((queries, documents), {}),
        (padded, {}),
        (padded, masks),
        ((queries, documents), {"a_mask": [torch.arange(len(query)) > 0 for query in queries]}),
        ((queries, empty), {}),
        ((queries[:1], documents[:1]), {"length_normalize": True}),
        ((queries[0], documents[0]), {}),
    ):
        found, expected = (getattr(each, name)(*arguments, **options) for each in (util, theirs_util))
        assert found.dtype == expected.dtype and found.shape == expected.shape
        assert torch.allclose(found, expected, rtol=1e-5, atol=1e-5), (name, options)


def test_public_names_are_here_or_refused(tmp_path):
    """Every public name of theirs is here, or says what to do in its place."""
    theirs = set(dir(sentence_transformers.MultiVectorEncoder)) - set(dir(torch.nn.Sequential))
    with MultiVectorEncoder(heads.build("vectors", "bert", tmp_path), device="cpu") as ours:
        for name in sorted(name for name in theirs if not name.startswith("_")):
            try:
                getattr(ours, name)
            except UnsupportedNameError as error:
                assert f"MultiVectorEncoder.{name} is left out: " in str(error)


# ------------------------------------------------------------------------------------------------------- token pooling


@pytest.mark.parametrize("factor", [1, 1.5, 3])
@pytest.mark.parametrize("settings", [{}, {"num_protected_tokens": 0, "normalize_embeddings": False}])
def test_pooled_vectors(folder, sentences, factor, settings):
    """The same clusters in the same order, of vectors that both computed and of the same vectors."""
    theirs, some = load(folder, torch.float32), sentences[::4]
    ours_way, their_way = (
        kind(factor, **settings) for kind in (HierarchicalTokenPooling, theirs_pooling.HierarchicalTokenPooling)
    )
    rows = theirs.encode_document(some)
    same = zip(ours_way.pool(rows), their_way.pool(rows), strict=True)
    assert all(one.shape == two.shape and (one - two).abs().max() <= 1e-6 for one, two in same)
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    for side in ("right", "left"):
        left = padded if side == "right" else padded.flip(1)
        found, expected = (way.pool(left, padding_side=side) for way in (ours_way, their_way))
        assert found.shape == expected.shape and (found - expected).abs().max() <= 1e-6
    expected = theirs.encode_document(some, token_pooling=their_way)
    with MultiVectorEncoder(folder, device="cpu", dtype="float32") as ours:
        for way in (ours_way, their_way):
            found = ours.encode_document(some, token_pooling=way, convert_to_tensor=True)
            assert all(
                one.shape == two.shape and (one - two).abs().max() <= FLOAT32
                for one, two in zip(found, expected, strict=True)
            )
        queries = ours.encode_query(some, token_pooling=ours_way)
        assert all(map(np.array_equal, queries, ours.encode_query(some)))


def test_pooled_by_a_function(folder, sentences):
    def halves(rows):
        return rows[: len(rows) // 2 * 2].reshape(len(rows) // 2, 2, -1).mean(1)

    theirs = load(folder, torch.float32)
    expected = theirs.encode_document(sentences[:9], token_pooling=theirs_pooling.LambdaTokenPooling(halves))
    with MultiVectorEncoder(folder, device="cpu", dtype="float32") as ours:
        for kind in (False, True):
            found = ours.encode_document(sentences[:9], token_pooling=halves, convert_to_tensor=kind)
            assert all(
                np.abs(np.asarray(one) - np.asarray(two)).max(initial=0) <= FLOAT32
                for one, two in zip(found, expected, strict=True)
            )
        raw = theirs.encode_document(
            sentences[:9], output_value=None, token_pooling=theirs_pooling.HierarchicalTokenPooling(2)
        )
        own = ours.encode_document(sentences[:9], output_value=None, token_pooling=2)
        for left, right in zip(own, raw, strict=True):
            rows = right["token_embeddings"][right["attention_mask"].bool()]
            assert left["attention_mask"].all() and np.abs(left["token_embeddings"] - rows.numpy()).max() <= FLOAT32


def test_a_model_that_pools(sentences, tmp_path):
    """A pooling among the modules, as their class saves it."""
    theirs = load(heads.build("vectors", "bert", tmp_path), torch.float32)
    theirs.append(theirs_pooling.HierarchicalTokenPooling(1.5, num_protected_tokens=2, tasks=["query", "document"]))
    theirs.save_pretrained(str(tmp_path / "pooled"))
    with MultiVectorEncoder(tmp_path / "pooled", device="cpu", dtype="float32") as ours:
        assert len(ours) == len(theirs) == 5
        for task in ("query", "document", None):
            found, expected = (
                model.encode(sentences[::4], task=task, convert_to_numpy=True) for model in (ours, theirs)
            )
            same = zip(found, expected, strict=True)
            assert all(one.shape == two.shape and np.abs(one - two).max() <= FLOAT32 for one, two in same), task


@pytest.mark.parametrize("spoil", ["plain", "repeated", "signs", "steps"])
def test_trees_are_scipys(spoil):
    """Of random distances and of many equal ones: the same unions, and the same numbers of clusters."""
    chance = np.random.default_rng(5)
    for count in (2, 3, 4, 7, 20, 65, 200):
        rows = chance.normal(size=(count, 16))
        match spoil:
            case "repeated":
                rows = rows[chance.integers(0, max(count // 2, 1), size=count)]
            case "signs":
                rows = np.sign(rows[:, :4])
            case "steps":
                rows = np.round(rows[:, :3]) + 0.01
        apart = ward.distances((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32))
        np.fill_diagonal(apart, 0)
        unions, heights = ward.linkage(apart)
        tree = hierarchy.linkage(squareform(apart, checks=False), "ward")
        assert np.array_equal(unions, tree[:, :2]) and np.abs(heights - tree[:, 2]).max() <= 1e-12
        for most in sorted({1, 1 + count // 3, 1 + count // 2, count - 1} - {count}):
            assert np.array_equal(ward.clusters(unions, heights, most), hierarchy.fcluster(tree, most, "maxclust") - 1)
