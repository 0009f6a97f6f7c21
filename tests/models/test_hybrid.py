"""`HybridEncoder` and the classes that load one part of its folder, against float64 on the last hidden states."""

import numpy as np
import pytest

from grilly import HybridEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder
from models import hybrid

UNUSED = {0, 1, 2, 3}  # <s>, <pad>, </s>, <unk>
CLOSE = 1e-5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return hybrid.build(tmp_path_factory.mktemp("hybrid") / "model")


@pytest.fixture(scope="module")
def states(folder, texts):
    """Ids and last hidden states of each text, and the reference of each part."""
    with SentenceTransformer(folder, device="cpu") as model:
        found = model.encode(texts, output_value=None)
        assert {model.tokenizer.convert_tokens_to_ids(t) for t in ("<s>", "<pad>", "</s>", "<unk>")} == UNUSED
    rows = [(each["input_ids"].tolist(), each["token_embeddings"]) for each in found]
    return rows, [hybrid.expected(own, ids, UNUSED) for ids, own in rows]


@pytest.fixture
def model(folder, device):
    with HybridEncoder(folder, device=device) as model:
        yield model


def test_all_three_from_one_call(model, states, texts, device):
    found = model.encode(texts)
    assert model.backend == device and list(found) == ["dense_vecs", "lexical_weights", "colbert_vecs"]
    assert found["dense_vecs"].shape == (len(texts), hybrid.HIDDEN)
    for place, (dense, weights, vectors) in enumerate(states[1]):
        assert np.abs(found["dense_vecs"][place] - dense).max() <= CLOSE
        own = found["lexical_weights"][place]
        # A weight that rounds to 0 may be on either side of it.
        for token in {*map(int, own), *weights}:
            assert abs(own.get(str(token), 0.0) - weights.get(token, 0.0)) <= CLOSE
        assert all(weight > 0 for weight in own.values()) and not UNUSED & set(map(int, own))
        assert found["colbert_vecs"][place].shape == vectors.shape
        assert len(vectors) == 0 or np.abs(found["colbert_vecs"][place] - vectors).max() <= CLOSE


def test_the_same_bits_in_any_batch_and_by_each_class(model, folder, device, texts):
    found = model.encode(texts, batch_size=7)
    again = model.encode(texts[::-1], batch_size=32)
    assert np.array_equal(found["dense_vecs"], again["dense_vecs"][::-1])
    assert found["lexical_weights"] == again["lexical_weights"][::-1]
    assert all(map(np.array_equal, found["colbert_vecs"], again["colbert_vecs"][::-1]))
    one = model.encode(texts[3])
    assert np.array_equal(one["dense_vecs"], found["dense_vecs"][3])
    assert one["lexical_weights"] == found["lexical_weights"][3]
    assert np.array_equal(one["colbert_vecs"], found["colbert_vecs"][3])
    with SentenceTransformer(folder, device=device) as dense:
        assert np.array_equal(dense.encode(texts), found["dense_vecs"])
    with SparseEncoder(folder, device=device) as sparse:
        rows = sparse.encode(texts)
        assert rows.shape == (len(texts), 600) and sparse.get_embedding_dimension() == 600
        for row, own in zip(rows, found["lexical_weights"], strict=True):
            assert dict(zip(map(str, row.columns.tolist()), row.values.tolist(), strict=True)) == own
        few = sparse.encode(texts[:9], max_active_dims=2)
        for row, own in zip(few, found["lexical_weights"][:9], strict=True):
            assert sorted(row.values.tolist()) == sorted(own.values())[-2:]
        assert np.array_equal(sparse.encode(texts[3], convert_to_sparse_tensor=False), rows[3].toarray())
    with MultiVectorEncoder(folder, device=device) as late:
        assert late.similarity_fn_name == "meanmaxsim" and late.get_embedding_dimension() == hybrid.COLUMNS
        assert all(map(np.array_equal, late.encode_document(texts), found["colbert_vecs"]))
        raw = late.encode(texts[:2], output_value=None)[0]
        assert not raw["attention_mask"][0] and raw["attention_mask"][1:].all()


@pytest.mark.parametrize("columns", [23, 1])
def test_an_odd_number_of_columns(tmp_path, states, texts, device, columns):
    folder = hybrid.build(tmp_path / "model", columns)
    with HybridEncoder(folder, device=device) as model:
        found = model.encode(texts[:20])
    for place, (ids, own) in enumerate(states[0][:20]):
        _, weights, vectors = hybrid.expected(own, ids, UNUSED, columns)
        lexical = found["lexical_weights"][place]
        assert all(abs(lexical.get(str(token), 0.0) - weight) <= CLOSE for token, weight in weights.items())
        assert len(vectors) == 0 or np.abs(found["colbert_vecs"][place] - vectors).max() <= CLOSE


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_in_16_bits(folder, states, texts, device, dtype):
    with HybridEncoder(folder, device=device, dtype=dtype) as model:
        found = model.encode(texts[:40])
    kind = np.float16 if dtype == "float16" else np.float32
    assert found["dense_vecs"].dtype == found["colbert_vecs"][0].dtype == kind
    most = 0.01 if dtype == "float16" else 0.08
    for place, (dense, weights, vectors) in enumerate(states[1][:40]):
        assert np.abs(found["dense_vecs"][place] - dense).max() <= most
        assert len(vectors) == 0 or np.abs(found["colbert_vecs"][place] - vectors).max() <= most
        own = found["lexical_weights"][place]
        assert all(abs(own.get(str(token), 0.0) - weight) <= 4 * most for token, weight in weights.items())


def test_a_folder_of_flagembedding_s_own(tmp_path, model, texts, device):
    """Without modules.json, and with products stored in float16."""
    bare = hybrid.build(tmp_path / "model", dtype="F16", listed=False)
    with HybridEncoder(bare, device=device) as other:
        found, expected = other.encode(texts[:20]), model.encode(texts[:20])
    assert np.array_equal(found["dense_vecs"], expected["dense_vecs"])
    for own, wanted in zip(found["colbert_vecs"], expected["colbert_vecs"], strict=True):
        assert own.shape == wanted.shape and (not own.size or 0 < np.abs(own - wanted).max() <= 2e-3)


def test_the_same_bits_everywhere(folder, texts, device):
    with HybridEncoder(folder, device=device, numerics="everywhere") as model:
        found = model.encode(texts[:12])
    with HybridEncoder(folder, device="cpu", numerics="everywhere") as model:
        expected = model.encode(texts[:12])
    assert np.array_equal(found["dense_vecs"], expected["dense_vecs"])
    assert found["lexical_weights"] == expected["lexical_weights"]
    assert all(map(np.array_equal, found["colbert_vecs"], expected["colbert_vecs"]))
