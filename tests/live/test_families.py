"""The architectures beside BERT against sentence-transformers itself: tiny checkpoints in three types and their own."""

import numpy as np
import pytest
import torch
from fixtures import jina_bert, jina_lora, nomic_moe
from models import families
from models.golden import normalized, per_text
from sentence_transformers import SentenceTransformer

import grilly

UNIT = 1e-6  # for rows of unit length, as in test_live.py
NARROW = 1.5  # times the largest error of theirs in the same type, both from float64
# The imports make them known to transformers.
assert jina_bert.JinaBertModel and jina_lora.JinaLoraModel and nomic_moe.NomicMoeModel
TYPES = {"F16": "float16", "BF16": "bfloat16"}
STORED = {
    name: TYPES[row["stored"]]
    for name, row in families.table().items()
    if row["stored"] in TYPES and "own_module" not in row
}


def load(folder, dtype) -> SentenceTransformer:
    model = SentenceTransformer(str(folder), device="cpu", model_kwargs=families.options(folder.name, dtype))
    return families.whole_type(model, folder, dtype)


def encode(model: SentenceTransformer, folder, sentences: list[str], **options):
    """What theirs answers, in batches in which a text's numbers are its own."""
    return model.encode(sentences, batch_size=families.batch_size(folder.name) or 32, **options)


def largest(rows, exact: np.ndarray) -> float:
    return np.abs(np.asarray(rows, np.float64) - exact).max() / np.abs(exact).max()


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(families.FIXTURES / "families.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def sentences(golden, texts) -> list[str]:
    """The golden file's texts, which hold pads and masks and cross the limit, and a part of the 200."""
    return [*(str(text) for text in golden["texts"]), *texts[1::20]]


@pytest.fixture(scope="module", params=families.table())
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(name, tmp_path_factory):
    return families.build(name, tmp_path_factory.mktemp("families"))


@pytest.fixture(scope="module")
def reference(name, tmp_path_factory):
    return families.build_for_reference(name, tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module")
def theirs(reference):
    return load(reference, torch.float32)


@pytest.fixture(scope="module")
def exact(reference, folder, sentences) -> np.ndarray:
    return encode(load(reference, torch.float32).double(), folder, sentences)


def test_golden_file_is_what_this_version_answers(exact, name, golden, theirs):
    rows = golden[f"{name}/rows"]
    assert largest(exact[: len(rows)], rows) <= 1e-7  # the file's numbers are rounded to float32
    assert golden[f"{name}/limit"] == theirs.max_seq_length
    texts = [str(text) for text in golden["texts"]]
    assert [theirs.preprocess([text])["input_ids"][0].tolist() for text in texts] == per_text(golden[f"{name}/ids"])


def test_embeddings_and_tokens(folder, device, theirs, exact, sentences):
    expected = encode(theirs, folder, sentences)
    with grilly.VulkanSentenceTransformer(folder, device=device) as ours:
        assert ours.backend == device and ours.dtype == "float32"
        rows = ours.encode(sentences, normalize_embeddings=False)
        assert ours.max_seq_length == theirs.max_seq_length
        for text in sentences:
            ids = theirs.preprocess([text])["input_ids"][0].tolist()
            assert ours.tokenizer.encode(text, truncation=True) == ids, text
    assert rows.dtype == expected.dtype == np.float32
    # Theirs is no nearer to float64 than UNIT where a checkpoint magnifies rounding: scores without a factor, say.
    error, other = (np.abs(normalized(found) - normalized(exact)).max() for found in (rows, expected))
    assert error <= max(UNIT, NARROW * other)
    assert largest(rows, exact) <= 1e-5


def test_token_embeddings(folder, device, reference, theirs, sentences):
    options = {"sentences": sentences[:20], "output_value": "token_embeddings"}
    expected = encode(theirs, folder, **options)
    exact = encode(load(reference, torch.float32).double(), folder, **options)
    errors = []
    with grilly.VulkanSentenceTransformer(folder, device=device) as ours:
        rows = ours.encode(sentences[:20], output_value="token_embeddings", normalize_embeddings=False)
    for row, other, right in zip(rows, expected, exact, strict=True):
        if len(row) == 0:
            # Of a text without tokens theirs is the vector of a padding token.
            assert len(other) == 1
            continue
        assert np.asarray(row).shape == np.asarray(right).shape
        errors.append([largest(found, np.asarray(right, np.float64)) for found in (row, other)])
    # As above, theirs may be no nearer to float64.
    error, other = np.max(errors, axis=0)
    assert error <= max(3e-6, NARROW * other)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_types(folder, reference, device, dtype, exact, sentences):
    """As near to float64 as theirs, but for the chance that decides which text has the largest error."""
    expected = encode(load(reference, getattr(torch, dtype)), folder, sentences)
    with grilly.VulkanSentenceTransformer(folder, device=device, dtype=dtype) as ours:
        assert ours.backend == device and ours.dtype == dtype
        rows = ours.encode(sentences, normalize_embeddings=False)
    assert rows.dtype == expected.dtype and rows.shape == expected.shape
    assert largest(rows, exact) <= NARROW * largest(expected, exact)


@pytest.mark.parametrize("name", ["roberta", *STORED], indirect=True)
def test_the_type_of_the_checkpoint(folder, name, device, exact, sentences):
    """With no dtype given, weights, numbers and results have the type that both read from config.json."""
    theirs = SentenceTransformer(str(folder), device="cpu")
    ours = grilly.SentenceTransformer(str(folder), device="cpu" if device == "cpu" else "cuda")
    assert ours.backend == device and ours.dtype == STORED.get(name, "float32")
    rows, expected = (model.encode(sentences) for model in (ours, theirs))
    assert rows.dtype == expected.dtype and rows.shape == expected.shape
    assert largest(rows, exact) <= NARROW * largest(expected, exact)
    left, right = (model.encode(sentences[:3], convert_to_tensor=True) for model in (ours, theirs))
    assert isinstance(left, torch.Tensor) and left.dtype == right.dtype and left.shape == right.shape
    ours.close()
