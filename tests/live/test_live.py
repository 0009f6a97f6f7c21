"""grilly beside sentence-transformers in one process: the same 200 texts, and what each option means.

Runs under `make test-live`, in an environment that holds both.
"""

import numpy as np
import pytest
import torch
from models.golden import normalized, same_bits, scaled_difference
from models.variants import BASE
from sentence_transformers import SentenceTransformer

from grilly import VulkanSentenceTransformer

UNIT = 1e-6
SOME = slice(0, 200, 9)


@pytest.fixture(scope="module")
def theirs(real_model_path):
    return SentenceTransformer(str(real_model_path), device="cpu", model_kwargs={"dtype": torch.float32})


@pytest.fixture(scope="module")
def ours(real_model_path, device):
    with VulkanSentenceTransformer(str(real_model_path), device=device) as model:
        assert model.backend == device
        yield model


@pytest.fixture(scope="module")
def our_rows(ours, texts):
    return ours.encode(texts)


@pytest.fixture(scope="module")
def their_rows(theirs, texts):
    return theirs.encode(texts, normalize_embeddings=True)


@pytest.fixture(scope="module")
def prompted():
    """Both engines on the tiny model with prompts, one of them the default."""
    prompts = {"query": "search query: ", "passage": "a page of text "}

    def pair(device, **more):
        options = {"prompts": prompts} | more
        return (
            VulkanSentenceTransformer(str(BASE), device=device, **options),
            SentenceTransformer(str(BASE), device="cpu", **options),
        )

    return pair


def test_embeddings(our_rows, their_rows):
    assert np.abs(our_rows - their_rows).max() <= UNIT


def test_golden_file_is_what_this_version_answers(their_rows, minilm_golden):
    assert np.abs(their_rows - minilm_golden["embeddings"]).max() <= UNIT


def test_tokens(ours, theirs, texts):
    for text in texts:
        assert list(ours.tokenizer.encode(text, truncation=True)) == theirs.preprocess([text])["input_ids"][0].tolist()


def test_one_text_is_one_row(ours, theirs, texts):
    assert ours.encode(texts[0]).shape == theirs.encode(texts[0]).shape == (384,)
    assert ours.encode(texts[:1]).shape == theirs.encode(texts[:1]).shape == (1, 384)
    assert ours.encode([]).shape == theirs.encode([]).shape


@pytest.mark.parametrize("dimension", [1, 100, 384, 1000])
def test_truncate_dim(ours, theirs, texts, dimension):
    arguments = {"truncate_dim": dimension, "normalize_embeddings": True}
    left, right = ours.encode(texts[SOME], **arguments), theirs.encode(texts[SOME], **arguments)
    assert scaled_difference(left, right) <= UNIT


@pytest.mark.parametrize("precision", ["float32", "int8", "uint8", "binary", "ubinary"])
def test_precision(ours, theirs, texts, precision):
    """The same type and shape; a quantised number may round the other way where float32 engines differ."""
    arguments = {"precision": precision, "normalize_embeddings": True}
    left, right = ours.encode(texts[SOME], **arguments), theirs.encode(texts[SOME], **arguments)
    assert left.dtype == right.dtype and left.shape == right.shape
    if precision == "float32":
        assert np.abs(left - right).max() <= UNIT
    elif precision in ("int8", "uint8"):
        exact = {"normalize_embeddings": True}
        rows, own = theirs.encode(texts[SOME], **exact).astype(np.float64), ours.encode(texts[SOME], **exact)
        low, high = rows.min(axis=0), rows.max(axis=0)
        step = (high - low) / 255
        # Value and both ends of the range are off by `d` at most, so the level by 4 d / step, and by its own roundings:
        # only levels that near to a whole number may come out one apart: a column's two ends always are, few others.
        level = (rows - low) / step
        slack = 4 * np.abs(own - rows).max() / step + 255 * 2.0**-21
        apart = np.abs(left.astype(int) - right.astype(int))
        near = np.abs(level - np.round(level)) <= slack
        assert apart.max() <= 1 and not apart[~near].any()
        assert near.mean() < 2 / len(rows) + 0.05
    else:
        assert np.mean(np.unpackbits((left ^ right).view(np.uint8))) < 1e-3


def test_token_embeddings(ours, theirs, texts):
    chosen = texts[SOME]
    left = ours.encode(chosen, output_value="token_embeddings", normalize_embeddings=False)
    right = theirs.encode(chosen, output_value="token_embeddings", normalize_embeddings=False)
    for row, other in zip(left, right, strict=True):
        assert scaled_difference(np.asarray(row), np.asarray(other)) <= 3e-6


def test_every_output(ours, theirs, texts):
    chosen = texts[SOME]
    left = ours.encode(chosen, output_value=None, normalize_embeddings=False)
    right = theirs.encode(chosen, output_value=None, normalize_embeddings=False)
    assert len(left) == len(right)
    for row, other in zip(left, right, strict=True):
        difference = np.asarray(row["sentence_embedding"]) - np.asarray(other["sentence_embedding"])
        assert np.abs(difference).max() <= UNIT
        tokens, mask = np.asarray(other["input_ids"]), np.asarray(other["attention_mask"])
        length = int(mask.sum())
        assert np.asarray(row["input_ids"])[:length].tolist() == tokens[:length].tolist()


def test_convert_to_tensor(ours, theirs, texts):
    left = ours.encode(texts[:3], convert_to_tensor=True)
    right = theirs.encode(texts[:3], convert_to_tensor=True, normalize_embeddings=True)
    assert isinstance(left, torch.Tensor) and left.dtype == right.dtype and left.shape == right.shape
    assert (left - right).abs().max() <= UNIT


def test_convert_to_list(ours, theirs, texts):
    left = ours.encode(texts[:3], convert_to_numpy=False)
    right = theirs.encode(texts[:3], convert_to_numpy=False, normalize_embeddings=True)
    assert isinstance(left, list) and isinstance(right, list) and len(left) == len(right) == 3


@pytest.mark.parametrize("name", ["cosine", "dot", "euclidean", "manhattan"])
def test_similarity(device, texts, name):
    theirs = SentenceTransformer(str(BASE), device="cpu", similarity_fn_name=name)
    with VulkanSentenceTransformer(str(BASE), device=device, similarity_fn_name=name) as ours:
        rows = theirs.encode(texts[:7])
        others = theirs.encode(texts[7:14])
        for method in ("similarity", "similarity_pairwise"):
            left = np.asarray(getattr(ours, method)(rows, others))
            right = getattr(theirs, method)(rows, others).numpy()
            assert left.shape == right.shape
            # theirs takes cosines and distances in float32 too: a few units in the last place of the largest number
            assert np.abs(left - right).max() <= 3e-6 * max(1.0, np.abs(right).max())


@pytest.mark.parametrize("method", ["encode", "encode_query", "encode_document"])
@pytest.mark.parametrize("default", [None, "passage"])
@pytest.mark.parametrize("arguments", [{}, {"prompt_name": "query"}, {"prompt": "Represent this: "}, {"prompt": ""}])
def test_prompts(prompted, device, texts, method, default, arguments):
    ours, theirs = prompted(device, default_prompt_name=default)
    with ours:
        left = getattr(ours, method)(texts[SOME], **arguments)
        right = getattr(theirs, method)(texts[SOME], normalize_embeddings=True, **arguments)
    assert scaled_difference(left, right) <= UNIT


def test_unknown_prompt_name(prompted, device, texts):
    ours, theirs = prompted(device)
    with ours:
        for model in (ours, theirs):
            with pytest.raises(ValueError, match="nothing like it"):
                model.encode(texts[:1], prompt_name="nothing like it")


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"batch_size": -1}, {"no_such_option": 1}])
def test_wrong_arguments(ours, theirs, texts, wrong):
    for model in (ours, theirs):
        with pytest.raises(ValueError):
            model.encode(texts[:1], **wrong)


@pytest.mark.parametrize("limit", [3, 17, 48, 64])
def test_max_seq_length(device, texts, limit):
    theirs = SentenceTransformer(str(BASE), device="cpu")
    theirs.max_seq_length = limit
    with VulkanSentenceTransformer(str(BASE), device=device) as ours:
        ours.max_seq_length = limit
        left = ours.encode(texts[SOME])
        assert same_bits(left, ours.encode(texts[SOME]))
    assert scaled_difference(left, theirs.encode(texts[SOME], normalize_embeddings=True)) <= UNIT


@pytest.mark.parametrize("limit", [7, 64, 256, 512])
def test_padding_and_the_limit_of_a_call(ours, theirs, texts, limit):
    given = {"text": {"padding": "max_length", "max_length": limit, "truncation": True}}
    expected = theirs.encode(texts[SOME], processing_kwargs=given)
    assert np.abs(ours.encode(texts[SOME], processing_kwargs=given) - expected).max() <= UNIT


def test_dimension_and_limit(ours, theirs):
    assert ours.get_sentence_embedding_dimension() == theirs.get_embedding_dimension() == 384
    assert ours.max_seq_length == theirs.max_seq_length == 256


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_types(real_model_path, device, texts, their_rows, dtype):
    """As near to float32 as theirs, or nearer: torch rounds more often. The same types come back.

    By the root of the mean square: the largest difference of a few thousand is chance, and torch's depends on the
    processor.
    """
    theirs = SentenceTransformer(str(real_model_path), device="cpu", model_kwargs={"dtype": dtype})
    exact = their_rows[SOME].astype(np.float64)
    with VulkanSentenceTransformer(str(real_model_path), device=device, model_kwargs={"dtype": dtype}) as ours:
        rows = [model.encode(texts[SOME], normalize_embeddings=True) for model in (ours, theirs)]
        tensors = [model.encode(texts[:2], convert_to_tensor=True) for model in (ours, theirs)]
    assert rows[0].dtype == rows[1].dtype and tensors[0].dtype == tensors[1].dtype
    left, right = (np.sqrt(np.square(each.astype(np.float64) - exact).mean()) for each in rows)
    assert left <= right, (left, right)
    cosines = np.prod([normalized(each.astype(np.float64)) for each in rows], axis=0).sum(axis=1)
    assert cosines.min() >= {"float16": 0.9999, "bfloat16": 0.999}[dtype]
