"""Keywords, positions and names of former versions that sentence-transformers 6.2 accepts, with its warnings."""

import logging
import pickle
import warnings

import numpy as np
import pytest
from models import heads

from grilly import CrossEncoder, SentenceTransformer, SparseEncoder, scores
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from grilly.sentence_transformer import aliases

PAIRS = [("a dog", "the cat and a dog"), ("one two three", ""), ("a dog", "a dog")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return heads.build("scores", "bert", tmp_path_factory.mktemp("scores"))


@pytest.fixture(scope="module")
def ranker(folder):
    with CrossEncoder(folder, device="cpu") as model:
        yield model


@pytest.fixture(autouse=True)
def not_said_yet(monkeypatch):
    monkeypatch.setattr(aliases, "_said", set())


def said(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


# ------------------------------------------------------------------------------------------------------------- calls


def test_older_keywords_of_predict(ranker, caplog):
    logits = ranker.predict(PAIRS, activation_fn=scores.identity)
    for _ in range(2):
        found = ranker.predict(sentences=PAIRS, activation_fct=scores.identity, num_workers=2)
        assert np.array_equal(found, logits)
    assert sorted(said(caplog)) == [
        "CrossEncoder.predict: activation_fct is an older keyword of activation_fn",
        "CrossEncoder.predict: num_workers is an older keyword without effect",
        "CrossEncoder.predict: sentences is an older keyword of inputs",
    ]
    # The present name counts where both are given.
    both = ranker.predict(
        inputs=PAIRS, sentences=PAIRS[:1], activation_fct=scores.identity, activation_fn=scores.sigmoid
    )
    assert np.array_equal(both, ranker.predict(PAIRS))
    with pytest.raises(TypeError, match="sentences|inputs"):
        ranker.predict(PAIRS, sentences=PAIRS)


def test_a_batch_size_by_position(ranker, caplog):
    """It stands where the name of a prompt does: a prompt that is False is none, and the name is then ignored."""
    assert np.array_equal(ranker.predict(PAIRS, 32, False), ranker.predict(PAIRS))
    assert said(caplog) == [
        "both prompt and prompt_name are given; prompt_name is ignored; is it batch_size=32? Give it by its name"
    ]
    with pytest.raises(ValueError, match=r"prompt_name is 32, expected one of \[\]; is it batch_size=32\?"):
        ranker.predict(PAIRS, 32)
    with pytest.raises(TypeError, match="prompt is of type bool"):
        ranker.predict(PAIRS, 32, True)
    for none in (False, 0, ""):
        assert np.array_equal(ranker.predict(PAIRS, prompt=none), ranker.predict(PAIRS))


def test_rank_takes_the_options_of_6_2(ranker, caplog):
    documents = ["rain", "the cat and a dog", "a dog"]
    found = ranker.rank("a dog", documents, activation_fn=scores.identity)
    older = ranker.rank(
        "a dog", documents, activation_fct=scores.identity, num_workers=0, apply_softmax=True, convert_to_tensor=True,
        convert_to_numpy=True,
    )  # fmt: skip
    assert older == found and all(type(row["score"]) is float for row in older)
    assert len(said(caplog)) == 5 and "CrossEncoder.rank: apply_softmax is an older keyword without effect" in said(
        caplog
    )
    for top_k in (None, 0, 2, -1, 100, np.int64(1)):
        assert ranker.rank("a dog", documents, top_k, activation_fn=scores.identity) == found[:top_k]
    same = ranker.rank(
        "a dog", documents, 2, True, None, None, 1, False, scores.identity, device="cpu", pool=None, chunk_size=None
    )
    assert [row["corpus_id"] for row in same] == [row["corpus_id"] for row in found[:2]]
    assert [row["text"] for row in same] == [documents[row["corpus_id"]] for row in same]
    assert ranker.rank("a dog", (text for text in documents), prompt=False) == ranker.rank("a dog", np.array(documents))
    with pytest.raises(InvalidTypeError, match="top_k is of type float"):
        ranker.rank("a dog", documents, top_k=2.0)
    for unknown in ("sentences", "inputs", "nonsense"):
        with pytest.raises(TypeError, match=unknown if unknown != "sentences" else "sentences"):
            ranker.rank("a dog", documents, **{unknown: 1})


def test_rows_of_arrays_are_a_batch(ranker):
    rows = [np.array(pair) for pair in PAIRS]
    assert not ranker.is_singular_input(rows) and np.array_equal(ranker.predict(rows), ranker.predict(PAIRS))


@pytest.mark.parametrize("kind", [SentenceTransformer, SparseEncoder])
def test_encode_says_once_that_sentences_is_an_older_keyword(kind, tiny_model, tmp_path, caplog):
    folder = tiny_model if kind is SentenceTransformer else heads.build("words", "bert", tmp_path)
    with kind(folder, device="cpu", tokenizer_kwargs={"model_max_length": 5}) as model:
        assert model.max_seq_length == 5
        whole = np.asarray(model.encode(["a dog"]))
        for method in (model.encode, model.encode_query, model.encode_document):
            assert np.array_equal(method(sentences=["a dog"]), whole)
        assert np.array_equal(model.encode(["a dog"], prompt=False), whole)
    assert said(caplog) == [
        f"{kind.__name__}: tokenizer_kwargs is an older keyword of processor_kwargs",
        f"{kind.__name__}.encode: sentences is an older keyword of inputs",
    ]


# -------------------------------------------------------------------------------------------------------- constructor


@pytest.mark.parametrize(
    ("older", "read"),
    [
        ({"default_activation_function": scores.tanh}, lambda model: model.activation_fn is scores.tanh),
        ({"automodel_args": {"dtype": "float16"}}, lambda model: model.dtype == "float16"),
        ({"tokenizer_args": {"model_max_length": 9}}, lambda model: model.max_seq_length == 9),
        ({"tokenizer_kwargs": {"model_max_length": 9}}, lambda model: model.max_seq_length == 9),
        ({"config_args": {"dtype": "float16"}}, lambda model: model.dtype == "float16"),
        ({"cache_dir": "/nowhere"}, lambda model: model.num_labels == 1),
        ({"classifier_dropout": 0.1}, lambda model: model.num_labels == 1),
        ({"classifier_dropout": 0.1, "config_kwargs": {"num_labels": 1}}, lambda model: model.num_labels == 1),
    ],
)
def test_older_keywords_of_the_constructor(folder, older, read, caplog):
    with CrossEncoder(folder, device="cpu", **older) as model:
        assert read(model)
    assert next(iter(older)) in said(caplog)[0] and len(said(caplog)) == 1


def test_older_positions_of_the_constructor(folder, caplog):
    with CrossEncoder(str(folder), 1, 20, scores.tanh, "cpu") as model:
        assert (model.max_seq_length, model.activation_fn, model.backend) == (20, scores.tanh, "cpu")
    assert len(said(caplog)) == 4
    with CrossEncoder(str(folder), 1, 20, device="cpu", max_length=12) as model:
        assert model.max_seq_length == 12
    with pytest.raises(TypeError, match="positional"):
        CrossEncoder(str(folder), 1, 20, scores.tanh, "cpu", {})
    with CrossEncoder(model_name=str(folder), device="cpu") as model:
        assert model.num_labels == 1
    with pytest.raises(InvalidArgumentError, match="num_labels is 2"):
        CrossEncoder(str(folder), 2, device="cpu")


def test_layers_that_compute_in_float32(folder):
    head, inner = "0.model.classifier", "0.model.bert.encoder.layer.1.output.dense"
    with CrossEncoder(folder, device="cpu", keep_in_fp32_modules=[head, inner, head]) as model:
        assert model.keep_in_fp32_modules == [head, inner]
        assert pickle.loads(pickle.dumps(model)).keep_in_fp32_modules == [head, inner]
        with pytest.raises(UnsupportedError, match="computes in float16"):
            model.half()
        model.keep_in_fp32_modules = ()
        assert model.keep_in_fp32_modules == [] and model.half().dtype == "float16" and model.float().dtype == "float32"
        for wrong in (head, [1], None):
            with pytest.raises(ValueError, match="keep_in_fp32_modules is"):
                model.set_keep_in_fp32_modules(wrong)
    with CrossEncoder(folder, device="cpu", dtype="float16", keep_in_fp32_modules=[head]) as model:
        assert model.keep_in_fp32_modules == [head]
    with pytest.raises(
        UnsupportedError, match="layer.1.output.dense', a layer of the encoder, which computes in float16"
    ):
        CrossEncoder(folder, device="cpu", dtype="float16", keep_in_fp32_modules=[inner])


# --------------------------------------------------------------------------------------------------------- warnings


def test_older_names_warn(ranker, tiny_model, caplog):
    with pytest.warns(DeprecationWarning, match="max_length is an older name; use max_seq_length"):
        assert ranker.max_length == ranker.max_seq_length
    with pytest.warns(DeprecationWarning, match="max_length"):
        ranker.max_length = 30
    with pytest.warns(DeprecationWarning, match="activation_fn"):
        assert ranker.default_activation_function is ranker.activation_fn
    with SentenceTransformer(tiny_model, device="cpu") as model:
        with pytest.warns(FutureWarning, match="use get_embedding_dimension"):
            assert model.get_sentence_embedding_dimension() == 32
        with pytest.warns(FutureWarning, match="use truncate_embeddings"), model.truncate_sentence_embeddings(4):
            assert model.get_embedding_dimension() == 4
        with pytest.warns(DeprecationWarning, match="encode"):
            model.encode_multi_process(["a dog"], model.start_multi_process_pool(["cpu"]))
        for _ in range(2):
            assert np.array_equal(model.tokenize(["a dog"])["input_ids"], model.preprocess(["a dog"])["input_ids"])
        assert said(caplog) == ["tokenize is an older name; use preprocess"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.encode(["a dog"])
