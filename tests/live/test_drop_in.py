"""`SentenceTransformer` and `grilly.util` beside sentence-transformers: types, tokens, saved folders, ties."""

import json
import shutil

import numpy as np
import pytest
import sentence_transformers
import torch
from models import families
from models.variants import BASE
from sentence_transformers import util as their_util

from grilly import SentenceTransformer, quant, util

UNIT = 1e-6
NARROW = 1.5  # times the error of theirs in the same type, both from float64
SOME = slice(0, 200, 11)


def both(folder, device="cpu", **arguments):
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu", **arguments)
    return SentenceTransformer(str(folder), device=device, **arguments), theirs


def close(ours, theirs, dtype="float32") -> bool:
    """Equal up to the type's own rounding."""
    unit = {"float32": UNIT, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    ours, theirs = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    return ours.shape == theirs.shape and bool(np.abs(ours - theirs).max() <= unit * max(1.0, np.abs(theirs).max()))


def as_near(ours, theirs, exact, dtype) -> bool:
    """As near to float64 as the type's own rounding or as theirs, which some checkpoints magnify."""
    error, other = (np.abs(found.astype(np.float64) - exact).max() for found in (ours, theirs))
    return close(ours, exact, dtype) or bool(error <= NARROW * other)


# Types.


@pytest.mark.parametrize("name", ["base", "float16", "bfloat16"])
@pytest.mark.parametrize("said", ["dtype", "torch_dtype", None])
def test_the_models_own_type(checkpoint, tmp_path, device, texts, name, said):
    """Said by config.json under either key, or by the checkpoint alone."""
    folder = tmp_path / "model"
    shutil.copytree(checkpoint(name), folder)
    config = json.loads((folder / "config.json").read_text())
    dtype = {"base": "float32"}.get(name, name)
    config = {key: value for key, value in config.items() if "dtype" not in key} | ({said: dtype} if said else {})
    (folder / "config.json").write_text(json.dumps(config))
    for arguments in ({}, {"model_kwargs": {"dtype": "auto"}}):
        ours, theirs = both(folder, device, **arguments)
        with ours:
            assert f"torch.{ours.dtype}" == str(theirs.dtype) == f"torch.{dtype}"
            left, right = ours.encode(texts[SOME]), theirs.encode(texts[SOME])
            assert left.dtype == right.dtype and close(left, right, dtype)
            tensors = [model.encode(texts[:2], convert_to_tensor=True).dtype for model in (ours, theirs)]
            assert tensors[0] == tensors[1] == theirs.dtype


@pytest.mark.parametrize(
    "settings, config, arguments",
    [
        ({"model_args": {"torch_dtype": "bfloat16"}}, {}, {}),
        ({"model_kwargs": {"dtype": "bfloat16"}}, {"dtype": "float16"}, {}),
        ({"model_kwargs": {"dtype": "bfloat16"}}, {"dtype": "float16"}, {"model_kwargs": {"dtype": "auto"}}),
        ({"model_kwargs": {"dtype": "bfloat16"}}, {}, {"model_kwargs": {"dtype": torch.float32}}),
        ({}, {"dtype": "float16"}, {"config_kwargs": {"dtype": "bfloat16"}}),
        ({}, {"dtype": "half"}, {}),
        ({}, {"dtype": "float32", "torch_dtype": "float16"}, {}),
    ],
)
def test_who_says_the_type(tmp_path, settings, config, arguments):
    folder = tmp_path / "model"
    shutil.copytree(BASE, folder)
    for name, more in (("sentence_bert_config.json", settings), ("config.json", config)):
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | more))
    ours, theirs = both(folder, **arguments)
    with ours:
        assert f"torch.{ours.dtype}" == str(theirs.dtype)


@pytest.mark.parametrize("method", ["half", "bfloat16", "float"])
def test_another_type(real_model_path, device, texts, method):
    ours, theirs = both(real_model_path, device)
    with ours:
        for model in (ours, theirs):
            assert getattr(model, method)() is model
        left, right = ours.encode(texts[SOME]), theirs.encode(texts[SOME])
    assert left.dtype == right.dtype and close(left, right, ours.dtype)


# Tokens.


@pytest.mark.parametrize("prompt", [None, "a page of text "])
def test_preprocess(real_model_path, texts, prompt):
    ours, theirs = both(real_model_path)
    with ours:
        for method in ("preprocess", "tokenize"):
            left, right = (getattr(model, method)(texts[SOME], prompt=prompt) for model in (ours, theirs))
            assert set(left) == set(right)
            for name, value in right.items():
                if not isinstance(value, torch.Tensor):
                    assert left[name] == value, name
                else:
                    assert left[name].dtype == value.dtype and torch.equal(left[name], value), name
        assert ours.preprocess([]) == theirs.preprocess([]) == {}


#: Those whose folders it reads without code from a hub.
READ = [name for name, row in families.table().items() if not {"own_module", "reference_config"} & row.keys()]


@pytest.mark.parametrize("name", READ)
def test_every_family(tmp_path, texts, name):
    """Rows of ids as sentence-transformers pads them, and a saved folder that it loads."""
    chosen = [*texts[SOME], "<pad> in a text", "[MASK] and <mask>", ""]
    ours, theirs = both(families.build(name, tmp_path))
    with ours:
        assert f"torch.{ours.dtype}" == str(theirs.dtype)
        left, right = ours.preprocess(chosen), theirs.preprocess(chosen)
        assert set(left) == set(right)
        for key in set(right) - {"modality"}:
            assert torch.equal(left[key], right[key]), key
        ours.max_seq_length = 7
        ours.save_pretrained(tmp_path / "saved")
        model_kwargs = families.options(name, "auto")
        saved = sentence_transformers.SentenceTransformer(
            str(tmp_path / "saved"), device="cpu", model_kwargs=model_kwargs
        )
        assert saved.max_seq_length == 7 and saved.dtype == theirs.dtype
        options = {"batch_size": families.batch_size(name) or 32}
        found, expected = ours.encode(chosen), saved.encode(chosen, **options)
        assert found.dtype == expected.dtype
        assert as_near(found, expected, saved.double().encode(chosen, **options), ours.dtype)


# Saved folders.


@pytest.mark.parametrize("name", ["base", "prompt_default", "dense_residual", "sharded", "no_modules_limit", "float16"])
def test_sentence_transformers_loads_what_is_saved(checkpoint, tmp_path, texts, name):
    with SentenceTransformer(checkpoint(name), device="cpu", prompts={"code": "code: "}) as ours:
        ours.max_seq_length, ours.truncate_dim, ours.similarity_fn_name = 9, 5, "manhattan"
        ours.default_prompt_name = "code"
        ours.set_pooling_include_prompt(False)
        ours.save_pretrained(tmp_path / "saved")
        theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "saved"), device="cpu")
        assert theirs.prompts == ours.prompts and theirs.default_prompt_name == "code"
        assert theirs.max_seq_length == 9 and theirs.truncate_dim == 5 and theirs.similarity_fn_name == "manhattan"
        assert str(theirs.dtype) == f"torch.{ours.dtype}"
        for method in ("encode", "encode_query"):
            left, right = getattr(ours, method)(texts[SOME]), getattr(theirs, method)(texts[SOME])
            assert left.dtype == right.dtype and close(left, right, ours.dtype)


def test_a_model_in_int8_is_one_of_floats_there(real_model_path, tmp_path, texts):
    """transformers warns of a method that it does not know."""
    with SentenceTransformer(real_model_path, device="cpu") as ours:
        floats = ours.encode(texts[SOME])
        quant.convert(ours, "int8").save_pretrained(tmp_path / "saved")
        with SentenceTransformer(tmp_path / "saved", device="cpu") as again:
            assert again.dtype == "int8" and np.array_equal(again.encode(texts[SOME]), ours.encode(texts[SOME]))
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert close(floats, theirs.encode(texts[SOME]), "float32")


def test_a_folder_goes_there_and_back(real_model_path, tmp_path, texts):
    with SentenceTransformer(real_model_path, device="cpu") as ours:
        ours.half().save_pretrained(tmp_path / "first")
        theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "first"), device="cpu")
        theirs.save_pretrained(str(tmp_path / "second"))
        with SentenceTransformer(tmp_path / "second", device="cpu") as back:
            assert back.dtype == ours.dtype == "float16"
            assert np.array_equal(back.encode(texts[SOME]), ours.encode(texts[SOME]))


# Tensors, and equal scores.


def exact(rows: int, columns: int, seed: int) -> torch.Tensor:
    """Whole numbers whose products are exact and of which hardly two are equal."""
    return torch.tensor(np.random.RandomState(seed).randint(-800, 801, (rows, columns)), dtype=torch.float32)


def ranked(hits: list[dict]) -> list[tuple[float, set[int]]]:
    """The rows of each score, the highest first: of equal scores torch gives any order, and at the end any of them."""
    scores = sorted({hit["score"] for hit in hits}, reverse=True)[:-1]
    return [(score, {hit["corpus_id"] for hit in hits if hit["score"] == score}) for score in scores]


@pytest.mark.parametrize("kind", ["tensor", "array", "list of tensors"])
@pytest.mark.parametrize(
    "top_k, corpus_chunk_size", [(1, 500), (10, 500), (10, 37), (64, 129), (300, 500), (2000, 700)]
)
def test_semantic_search(kind, top_k, corpus_chunk_size):
    queries, corpus = exact(7, 12, 1), exact(1500, 12, 2)
    given = {"tensor": lambda rows: rows, "array": lambda rows: rows.numpy(), "list of tensors": list}[kind]
    options = {"top_k": top_k, "corpus_chunk_size": corpus_chunk_size, "query_chunk_size": 3}
    ours = util.semantic_search(given(queries), given(corpus), score_function=util.dot_score, **options)
    theirs = their_util.semantic_search(queries, corpus, score_function=their_util.dot_score, **options)
    for left, right in zip(ours, theirs, strict=True):
        assert [hit["score"] for hit in left] == [hit["score"] for hit in right]
        assert ranked(left) == ranked(right)


def test_semantic_search_by_cosine(real_model_path, texts):
    """Roundings of a float32 sum add up as a random walk: sqrt(n) units of 2^-24 for a score of 1 of n terms."""
    rows = sentence_transformers.SentenceTransformer(str(real_model_path), device="cpu").encode(texts)
    ours, theirs = util.semantic_search(rows, rows, top_k=5), their_util.semantic_search(rows, rows, top_k=5)
    exact = rows.astype(np.float64) / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    allowed = np.sqrt(rows.shape[1]) * 2.0**-24
    for query, left, right in zip(exact, ours, theirs):
        order = np.argsort(-(exact @ query))[:6]
        best = (exact @ query)[order]
        for hits in (left, right):
            assert np.all(np.abs([hit["score"] for hit in hits] - best[:5]) <= allowed)
            for place in np.flatnonzero(-np.diff(best) > 2 * allowed):
                assert {hit["corpus_id"] for hit in hits[: place + 1]} == set(order[: place + 1])


@pytest.mark.parametrize("top_k, max_pairs, chunk", [(100, 500000, 5000), (3, 50, 41), (1, 500000, 100)])
def test_paraphrase_mining(top_k, max_pairs, chunk):
    rows = exact(400, 10, 3)
    options = {"top_k": top_k, "max_pairs": max_pairs, "query_chunk_size": chunk, "corpus_chunk_size": chunk + 30}
    ours = util.paraphrase_mining_embeddings(rows.numpy(), score_function=util.dot_score, **options)
    theirs = their_util.paraphrase_mining_embeddings(rows, score_function=their_util.dot_score, **options)
    # But for the last score, of which either keeps any pairs.
    left, right = ({tuple(pair) for pair in found if pair[0] > theirs[-1][0]} for found in (ours, theirs))
    assert left == right and [pair[0] for pair in ours] == [pair[0] for pair in theirs]


@pytest.mark.parametrize("threshold, least, batch", [(0.75, 10, 1024), (0.5, 2, 33), (0.0, 5, 100)])
def test_community_detection(threshold, least, batch):
    # Powers of two along few directions: cosines are exact.
    chosen = np.random.RandomState(5).randint(0, 14, 600)
    rows = torch.eye(14)[chosen] * 2.0 ** torch.tensor(chosen % 3)[:, None]
    options = {"threshold": threshold, "min_community_size": least, "batch_size": batch}
    ours, theirs = (module.community_detection(rows, **options) for module in (util, their_util))
    assert [(group[0], set(group)) for group in ours] == [(group[0], set(group)) for group in theirs]


SIMILARITIES = [
    f"{pairwise}{name}"
    for pairwise in ("", "pairwise_")
    for name in ("cos_sim", "dot_score", "euclidean_sim", "manhattan_sim")
]


@pytest.mark.parametrize("name", SIMILARITIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_tensors_give_tensors(name, dtype):
    a, b = torch.randn(6, 40).to(dtype), torch.randn(6, 40).to(dtype)
    ours, theirs = (getattr(module, name) for module in (util, their_util))
    found, expected = ours(a, b), theirs(a, b)
    assert isinstance(found, torch.Tensor) and found.dtype == expected.dtype and found.shape == expected.shape
    assert torch.allclose(found, expected, rtol=2e-6, atol=2e-5)
    assert isinstance(ours(list(a), b), torch.Tensor) and isinstance(ours(a.float().numpy(), b), torch.Tensor)
    assert isinstance(ours(a.float().numpy(), b.float().numpy()), np.ndarray)


def test_the_models_similarity_gives_tensors(real_model_path, texts):
    ours, theirs = both(real_model_path)
    with ours:
        rows = ours.encode(texts[:5], convert_to_tensor=True)
        for method in ("similarity", "similarity_pairwise"):
            found, expected = getattr(ours, method)(rows, rows), getattr(theirs, method)(rows, rows)
            assert found.dtype == expected.dtype and torch.allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "int8", "uint8", "binary", "ubinary"])
def test_quantize_embeddings(precision):
    rows = torch.randn(150, 19)
    for given in (rows, rows.numpy(), list(rows), [rows[:60], rows[60:]]):
        ours = util.quantize_embeddings(given, precision)
        theirs = their_util.quantize_embeddings(given, precision)
        assert type(ours) is type(theirs)
        for left, right in zip(ours, theirs):
            assert isinstance(left, np.ndarray) and left.dtype == right.dtype and np.array_equal(left, right)


def test_other_functions():
    rows = torch.randn(5, 8)
    rows[2] = 0
    assert torch.allclose(util.normalize_embeddings(rows), their_util.normalize_embeddings(rows), rtol=0, atol=1e-7)
    assert torch.equal(util.truncate_embeddings(rows, 3), their_util.truncate_embeddings(rows, 3))


# Arguments of `to` that are torch's.


def test_torchs_types_and_devices(real_model_path):
    with SentenceTransformer(str(real_model_path), device=torch.device("cpu")) as model:
        assert model.to(torch.device("cpu")).to(torch.float16).dtype == "float16"
        assert model.to(torch.zeros(1, dtype=torch.bfloat16)).dtype == "bfloat16" and model.backend == "cpu"
        assert model.to("cpu", torch.float32).dtype == "float32"
