"""Token pooling: clusters beside a plain search for them, what is pooled and what stays, functions, padded arrays."""

import itertools

import numpy as np
import pytest
from models import heads

from grilly import MultiVectorEncoder, errors
from grilly.token_pooling import BaseTokenPooling, HierarchicalTokenPooling, LambdaTokenPooling
from grilly.ward import clusters, distances, linkage, means

TEXTS = ["a dog and the cat sits on the mat!", "", "one two three.", "a dog " * 9]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = heads.build("vectors", "bert", tmp_path_factory.mktemp("vectors"))
    with MultiVectorEncoder(folder, device="cpu") as model:
        yield model


def rows_of(count: int, columns: int = 8, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(count, columns)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def plainly(apart: np.ndarray, most: int) -> set[frozenset[int]]:
    """Clusters by the definition: of all pairs those two are joined that are nearest by Ward's formula."""
    groups = [frozenset([point]) for point in range(len(apart))]
    squares = {frozenset(pair): apart[pair] ** 2 for pair in itertools.combinations(range(len(apart)), 2)}
    squares = {frozenset(frozenset([point]) for point in pair): square for pair, square in squares.items()}
    while len(groups) > most:
        x, y = min(itertools.combinations(groups, 2), key=lambda pair: squares[frozenset(pair)])
        union, joined = x | y, squares[frozenset((x, y))]
        groups = [group for group in groups if group not in (x, y)]
        for group in groups:
            parts = [(len(group) + len(part)) * squares[frozenset((group, part))] for part in (x, y)]
            squares[frozenset((group, union))] = (sum(parts) - len(group) * joined) / (len(group) + len(union))
        groups.append(union)
    return set(groups)


@pytest.mark.parametrize("count", [2, 3, 5, 12, 40])
def test_clusters_are_those_of_the_definition(count):
    for seed in range(5):
        apart = distances(rows_of(count, seed=seed))
        tree = linkage(apart)
        assert (np.diff(tree[1]) >= 0).all()
        for most in sorted({1, count // 2, count - 1}):
            labels = clusters(*tree, most)
            found = {frozenset(np.flatnonzero(labels == label).tolist()) for label in range(labels.max() + 1)}
            assert found == plainly(apart, most)


def test_equal_vectors_are_joined_with_no_fewer_clusters_than_asked_for_at_least():
    """All unions of distance 0 are made at once, as SciPy makes them."""
    rows = np.repeat(np.eye(2, dtype=np.float32), 3, axis=0)
    tree = linkage(distances(rows))
    for most in (2, 3, 4, 5):
        assert clusters(*tree, most).tolist() == [0, 0, 0, 1, 1, 1]
    assert clusters(*tree, 1).tolist() == [0] * 6
    assert means(rows, 2).tolist() == [[1, 0], [0, 1]]


def test_distances_depend_on_no_order_of_a_sum():
    rows = rows_of(37, 128)
    apart = distances(rows)
    # Half a unit of float32 below 2, and 2^-27 in each of the 128 columns of either vector.
    bound = 2**-24 + 2 * np.sqrt(128) * 2**-27
    assert np.abs(apart - np.maximum(1 - rows.astype(np.float64) @ rows.T, 0)).max() <= bound
    order = np.random.default_rng(1).permutation(128)
    assert np.array_equal(distances(rows[:, order]), apart) and np.array_equal(apart, apart.T)
    assert np.array_equal(distances(rows[:9]), apart[:9, :9])
    assert distances(np.zeros((3, 4), np.float32)).tolist() == [[1.0] * 3] * 3


def test_what_stays_and_how_many(model):
    rows = model.encode_document(TEXTS)
    pooled = model.encode_document(TEXTS, token_pooling=HierarchicalTokenPooling(2))
    for whole, part in zip(rows, pooled, strict=True):
        assert len(part) == 1 + max((len(whole) - 1) // 2, 1) and part.dtype == np.float32
        assert np.allclose(part[0], whole[0], atol=1e-6) and np.allclose(np.linalg.norm(part, axis=1), 1, atol=1e-6)
    plain = HierarchicalTokenPooling(2, normalize_embeddings=False, num_protected_tokens=0)
    for whole, part in zip(rows, model.encode_document(TEXTS, token_pooling=plain), strict=True):
        labels = clusters(*linkage(distances(whole)), len(part))
        expected = [whole[labels == label].mean(axis=0) for label in range(len(part))]
        assert len(part) == max(len(whole) // 2, 1) and np.allclose(part, expected, atol=1e-6)


def test_ways_to_ask_for_it(model):
    expected = model.encode_document(TEXTS, token_pooling=HierarchicalTokenPooling(1.5))
    same = (
        model.encode_document(TEXTS, token_pooling=1.5, batch_size=1),
        [model.encode_document(text, token_pooling=1.5) for text in TEXTS],
        HierarchicalTokenPooling(1.5).pool(model.encode_document(TEXTS)),
        model.encode(TEXTS, prompt_name="document", task="document", token_pooling=1.5),
        [row["token_embeddings"] for row in model.encode_document(TEXTS, token_pooling=1.5, output_value=None)],
    )
    for found in same:
        assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
    (features,) = model.encode_document(TEXTS[:1], token_pooling=1.5, output_value=None)
    assert features["attention_mask"].tolist() == [True] * len(expected[0])
    assert model.encode_document([], token_pooling=2) == []
    # Queries are not pooled unless a pooling says so, and a factor of 1 pools nothing.
    queries = model.encode_query(TEXTS)
    for factor in (2, HierarchicalTokenPooling(1, tasks=["query"], normalize_embeddings=False)):
        found = model.encode_query(TEXTS, token_pooling=factor)
        assert all(np.array_equal(one, other) for one, other in zip(found, queries, strict=True))
    assert len(model.encode_query("a dog", token_pooling=HierarchicalTokenPooling(2, tasks="query"))) == 1 + 11 // 2


def test_a_function(model):
    rows = model.encode_document(TEXTS)
    for pooling in (lambda each: each[::2], LambdaTokenPooling(lambda each: each[::2])):
        found = model.encode_document(TEXTS, token_pooling=pooling)
        assert all(np.array_equal(one, other[::2]) for one, other in zip(found, rows, strict=True))
    normal = model.encode_document(TEXTS, token_pooling=lambda each: each[:1] * 0, normalize_embeddings=True)
    assert not np.concatenate(normal).any()
    with pytest.raises(errors.InvalidArgumentError, match=r"LambdaTokenPooling gives \(24,\), expected \(T, D\)"):
        model.encode_document(TEXTS, token_pooling=lambda each: each[0])


@pytest.mark.parametrize("side", ["right", "left"])
def test_padded_arrays(side):
    texts = [rows_of(5, seed=1), rows_of(9, seed=2), rows_of(1, seed=3)]
    padded, mask = np.zeros((3, 9, 8), np.float32), np.zeros((3, 9), bool)
    for place, text in enumerate(texts):
        where = slice(9 - len(text), 9) if side == "left" else slice(len(text))
        padded[place, where], mask[place, where] = text, True
    pooling = HierarchicalTokenPooling(2)
    expected = pooling.pool(texts)
    for found in (
        pooling.pool(padded, padding_side=side),
        pooling.pool(padded, attention_mask=mask, padding_side=side),
    ):
        assert found.shape == (3, 5, 8)
        for row, each in zip(found, expected, strict=True):
            filled = row[5 - len(each) :] if side == "left" else row[: len(each)]
            assert np.array_equal(filled, each) and np.count_nonzero(row.any(axis=1)) == len(each)
    assert pooling.pool(padded[:0]).shape == (0, 0, 8) and pooling.pool([]) == []
    assert pooling.pool(texts, task="query") is texts


def test_narrow_vectors_stay_narrow():
    rows = rows_of(12).astype(np.float16)
    found = HierarchicalTokenPooling(3).pool([rows])[0]
    assert found.dtype == np.float16 and len(found) == 1 + 11 // 3
    wide = HierarchicalTokenPooling(3).pool([rows.astype(np.float32)])[0]
    assert np.abs(found - wide).max() <= 2**-11


def test_numbers_that_are_the_same_everywhere(model):
    """Pooling is made of operations whose results no machine changes, for whatever the vectors are."""
    folder = model.model_name
    with MultiVectorEncoder(folder, device="cpu", numerics="everywhere") as everywhere:
        rows = everywhere.encode_document(TEXTS)
        found = everywhere.encode_document(TEXTS, token_pooling=2)
        expected = HierarchicalTokenPooling(2).pool(rows)
        assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda model: HierarchicalTokenPooling(0.5), "pool_factor is 0.5, expected a number from 1 on"),
        (lambda model: HierarchicalTokenPooling(float("nan")), "pool_factor is nan"),
        (lambda model: HierarchicalTokenPooling(num_protected_tokens=-1), "num_protected_tokens"),
        (lambda model: BaseTokenPooling().pool([np.ones((2, 3))]), "BaseTokenPooling has no method pool_one"),
        (lambda model: LambdaTokenPooling(3), "pool_fn is of type int, expected a function"),
        (lambda model: model.encode_document(TEXTS, token_pooling="2"), "token_pooling is of type str, expected"),
        (lambda model: model.encode_document(TEXTS, token_pooling=True), "pool_factor is True"),
        (
            lambda model: HierarchicalTokenPooling(2).pool([np.full((9, 3), np.nan)]),
            "vector 0 of those that are pooled",
        ),
        (lambda model: HierarchicalTokenPooling(2).pool([np.ones(3)]), r"embeddings\[0\] are \(3,\), expected"),
        (lambda model: HierarchicalTokenPooling(2).pool(np.ones((3, 4))), r"embeddings are \(3, 4\), expected a list"),
        (lambda model: HierarchicalTokenPooling(2).pool(np.ones((1, 2, 3)), padding_side="up"), "padding_side"),
        (
            lambda model: HierarchicalTokenPooling(2).pool(np.ones((1, 2, 3)), attention_mask=np.ones((1, 3))),
            r"attention_mask has shape \(1, 3\), expected \(1, 2\)",
        ),
    ],
)
def test_faults(model, call, words):
    with pytest.raises(errors.GrillyError, match=words):
        call(model)
