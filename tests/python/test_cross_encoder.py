"""`CrossEncoder`: arguments, shapes, activation functions, and models that it cannot use."""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from models import heads
from models.safetensors_file import read
from models.spoil import change_json, rewrite

from grilly import CrossEncoder, SentenceTransformer, errors, scores

PAIRS = [("a dog", "the cat and a dog"), ("one two three", ""), ("a dog", "a dog"), ("", "rain")]
IDENTITY = "torch.nn.modules.linear.Identity"


@pytest.fixture(scope="session")
def one(tmp_path_factory) -> Path:
    """A BERT with one label, as transformers saves it."""
    return heads.build("scores", "bert", tmp_path_factory.mktemp("scores"))


@pytest.fixture(scope="session")
def three(tmp_path_factory) -> Path:
    return heads.build("scores", "bert-labels", tmp_path_factory.mktemp("scores"))


@pytest.fixture
def ranker(one):
    with CrossEncoder(one, device="cpu") as model:
        yield model


@pytest.fixture
def folder(one, tmp_path) -> Path:
    return Path(shutil.copytree(one, tmp_path / "model"))


def load(folder: Path, **arguments) -> CrossEncoder:
    return CrossEncoder(folder, device="cpu", **arguments)


# ------------------------------------------------------------------------------------------------------------- predict


def test_shapes(ranker, three):
    rows = ranker.predict(PAIRS)
    assert rows.shape == (4,) and rows.dtype == np.float32
    one = ranker.predict(PAIRS[0])
    assert np.shape(one) == () and one == rows[0]
    for same in (list(map(list, PAIRS)), tuple(PAIRS), np.array(PAIRS), np.array(PAIRS, dtype=object)):
        assert np.array_equal(ranker.predict(same), rows)
    assert ranker.predict(np.array(PAIRS[0])) == rows[0] and ranker.predict(list(PAIRS[0])) == rows[0]
    assert np.array_equal(ranker.predict(sentences=PAIRS), rows)
    assert ranker.predict([]).shape == (0,) and ranker.predict([], convert_to_numpy=False) == []
    listed = ranker.predict(PAIRS, convert_to_numpy=False)
    assert isinstance(listed, list) and listed == rows.tolist()
    with load(three) as model:
        assert model.num_labels == 3
        assert model.predict(PAIRS).shape == (4, 3) and model.predict(PAIRS[0]).shape == (3,)
        shares = model.predict(PAIRS, apply_softmax=True)
        assert np.allclose(shares.sum(axis=1), 1)
        logits = model.predict(PAIRS)
        assert np.allclose(shares, np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))
        with pytest.raises(errors.InvalidArgumentError, match="rank.. needs one score per pair, this model has 3"):
            model.rank("a", ["b"])


def test_a_single_text_is_scored_alone(ranker):
    """As theirs, which tokenizes a bare str as one text."""
    score = ranker.predict("a dog")
    assert np.shape(score) == () and score != ranker.predict(("a dog", ""))


def test_a_prompt_begins_the_first_text(one):
    with load(one, prompts={"rank": "rank: "}) as model:
        assert model.prompts == {"rank": "rank: "}
        joined = [("rank: " + first, second) for first, second in PAIRS]
        expected = model.predict(joined)
        assert np.array_equal(model.predict(PAIRS, prompt_name="rank"), expected)
        assert np.array_equal(model.predict(PAIRS, prompt="rank: "), expected)
        with pytest.raises(ValueError, match="prompt_name is 'query', expected one of"):
            model.predict(PAIRS, prompt_name="query")
    with load(one, prompts={"rank": "rank: "}, default_prompt_name="rank") as model:
        assert np.array_equal(model.predict(PAIRS), expected)


def test_rank(ranker):
    documents = [second for _, second in PAIRS] + ["a dog"]
    expected = ranker.predict([("a dog", document) for document in documents])
    found = ranker.rank("a dog", documents, return_documents=True)
    assert [row["corpus_id"] for row in found] == sorted(range(5), key=lambda i: -expected[i])
    for row in found:
        assert row["score"] == expected[row["corpus_id"]] and row["text"] == documents[row["corpus_id"]]
    assert isinstance(found[0]["score"], float)
    assert ranker.rank("a dog", documents, top_k=2) == [
        {"corpus_id": row["corpus_id"], "score": row["score"]} for row in found[:2]
    ]
    places = [row["corpus_id"] for row in found]
    assert places.index(2) < places.index(4), "equal scores keep their order"
    assert ranker.rank("a dog", []) == []


@pytest.mark.parametrize(
    "inputs, kind, words",
    [
        ([["a", "b", "c"]], ValueError, r"inputs\[0\] has 3 texts"),
        ([["a", "b"], ["a"]], ValueError, r"inputs\[1\] has 1 texts"),
        ([["a", "b"], "a"], TypeError, r"inputs\[1\] is of type str"),
        ([["a", 3]], TypeError, r"pairs\[0\]\[1\] is of type int"),
        ([["a", "b"], ["\ud800", "b"]], ValueError, r"pairs\[1\]\[0\] holds a lone surrogate"),
        ({"a": "b"}, TypeError, "inputs is of type dict"),
        (3, TypeError, "inputs is of type int"),
    ],
)
def test_what_is_not_a_pair(ranker, inputs, kind, words):
    with pytest.raises(kind, match=words):
        ranker.predict(inputs)


def test_unknown_and_impossible_arguments(ranker):
    with pytest.raises(ValueError, match="does not know the keyword 'normalize'"):
        ranker.predict(PAIRS, normalize=True)
    with pytest.raises(ValueError, match="batch_size is 0"):
        ranker.predict(PAIRS, batch_size=0)
    with pytest.raises(ValueError, match="not a device|expected 'vulkan'"):
        ranker.predict(PAIRS, device="xpu")


def test_a_pool_and_another_device_give_the_same(ranker):
    pool = ranker.start_multi_process_pool(["cpu", "cpu"])
    rows = ranker.predict(PAIRS)
    assert np.array_equal(ranker.predict(PAIRS, pool=pool, chunk_size=1), rows)
    assert np.array_equal(ranker.predict(PAIRS, device=["cpu"]), rows)
    assert np.array_equal(ranker.predict(PAIRS, device="cpu"), rows)


# --------------------------------------------------------------------------------------------- activation functions


def test_functions_of_the_logits(ranker):
    logits = ranker.predict(PAIRS, activation_fn=scores.identity)
    assert np.allclose(ranker.predict(PAIRS), 1 / (1 + np.exp(-logits)))
    assert np.array_equal(ranker.predict(PAIRS, activation_fn=np.negative), -logits)
    ranker.activation_fn = scores.identity
    assert np.array_equal(ranker.predict(PAIRS), logits) and ranker.default_activation_function is scores.identity
    with pytest.raises(TypeError, match="activation_fn is of type int"):
        ranker.predict(PAIRS, activation_fn=3)
    with pytest.raises(ValueError, match="activation_fn gives shape"):
        ranker.predict(PAIRS, activation_fn=lambda x: x[:1])
    with pytest.raises(TypeError, match="activation_fn is of type str"):
        load("nothing", activation_fn="Sigmoid")


@pytest.mark.parametrize(
    "file, changes, name",
    [
        ("config.json", {"sbert_ce_default_activation_function": IDENTITY}, "identity"),
        ("config.json", {"sentence_transformers": {"activation_fn": IDENTITY, "version": "4.0.1"}}, "identity"),
        ("config.json", {"sentence_transformers": {"version": "4.0.1"}}, "sigmoid"),
        ("config.json", {"sbert_ce_default_activation_function": None}, "sigmoid"),
        ("config.json", {"sbert_ce_default_activation_function": "torch.nn.modules.activation.Tanh"}, "tanh"),
        ("config.json", {"sbert_ce_default_activation_function": "mine.Wavy"}, "sigmoid"),
    ],
)
def test_the_configuration_names_a_function(folder, file, changes, name, caplog):
    change_json(folder / file, **changes)
    with load(folder) as model:
        assert model.activation_fn.__name__ == name
    assert any("mine.Wavy" in record.getMessage() for record in caplog.records) == ("mine.Wavy" in str(changes))
    with load(folder, activation_fn=np.negative) as model:
        assert model.activation_fn is np.negative


def test_an_unknown_function_of_torch_is_named(folder):
    change_json(folder / "config.json", sbert_ce_default_activation_function="torch.nn.modules.activation.Mish")
    with pytest.raises(errors.UnsupportedError, match="config.json: sbert_ce.*Mish.*known are.*Sigmoid.*activation_fn"):
        load(folder)


def test_a_folder_of_sentence_transformers_names_it_elsewhere(tmp_path):
    folder = heads.build("scores", "bert-new", tmp_path)
    with load(folder) as model:
        assert model.activation_fn is scores.sigmoid and model.max_length == 30 and len(model) == 1
    change_json(folder / "config_sentence_transformers.json", activation_fn=IDENTITY, prompts={"q": "q: "})
    with load(folder) as model:
        assert model.activation_fn is scores.identity and model.prompts == {"q": "q: "}


# ------------------------------------------------------------------------------------------------------- constructor


def test_labels_and_limit(one, three):
    with load(one, num_labels=1, max_length=12) as model:
        assert model.max_length == model.max_seq_length == 12
        model.max_length = 20
        assert model.get_max_seq_length() == 20
    with load(three, config_kwargs={"num_labels": 3, "classifier_dropout": 0.1}) as model:
        assert model.num_labels == 3
    with pytest.raises(ValueError, match="num_labels is 2, but the head of the model has 1"):
        load(one, num_labels=2)
    with pytest.raises(ValueError, match="num_labels is 0"):
        load(one, num_labels=0)
    with pytest.raises(errors.WeightsError, match="expected"):
        load(one, config_kwargs={"hidden_size": 12})


def test_another_type_pickling_and_closing(ranker):
    rows = ranker.predict(PAIRS)
    copy = pickle.loads(pickle.dumps(ranker))
    assert np.array_equal(copy.predict(PAIRS), rows) and copy.activation_fn is scores.sigmoid
    narrow = copy.half().predict(PAIRS)
    assert copy.dtype == "float16" and narrow.dtype == np.float32 and 0 < np.abs(narrow - rows).max() < 0.05
    assert np.array_equal(copy.float().predict(PAIRS), rows)
    copy.close()
    with pytest.raises(errors.UnusableError):
        copy.predict(PAIRS)
    with pytest.raises(errors.UnusableError):
        copy.predict([])
    assert "Transformer(bert, 2 layers of 36, with its head)" in repr(ranker)


@pytest.mark.parametrize("name", ["fit", "push_to_hub", "load_adapter"])
def test_names_that_are_left_out(ranker, name):
    with pytest.raises(errors.UnsupportedNameError, match=f"CrossEncoder.{name} is left out: "):
        getattr(ranker, name)


# ------------------------------------------------------------------------------------------------- unusable folders


def test_a_checkpoint_without_a_head_names_its_tensors(folder):
    rewrite(folder, lambda tensors: [tensors.pop(f"classifier.{end}") for end in ("weight", "bias")])
    with pytest.raises(errors.WeightsError, match=r"missing classifier.weight \[1, 36\].*missing classifier.bias"):
        load(folder)


def test_a_head_of_another_size(folder):
    change_json(folder / "config.json", id2label={"0": "no", "1": "yes"})
    with pytest.raises(errors.WeightsError, match=r"classifier.weight has shape \[1, 36\], expected \[2, 36\]"):
        load(folder)


def test_tensors_that_no_head_has(folder):
    """Of another module they are skipped, as in the reference; of a module that is read they are refused."""
    rewrite(folder, lambda tensors: tensors.update({"classifiers.weight": np.zeros(3, np.float32)}))
    load(folder).close()
    rewrite(folder, lambda tensors: tensors.update({"classifier.scale": np.zeros(3, np.float32)}))
    with pytest.raises(errors.WeightsError, match="unexpected classifier.scale"):
        load(folder)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"id2label": {}}, "id2label is empty"),
        ({"id2label": ["a"]}, "id2label is"),
        ({"id2label": ..., "num_labels": 0}, "num_labels is 0"),
    ],
)
def test_absurd_labels(folder, changes, words):
    change_json(folder / "config.json", **changes)
    with pytest.raises(errors.ModelFormatError, match=f"config.json: {words}"):
        load(folder)


def test_decoders_and_families_without_a_head(folder):
    change_json(folder / "config.json", architectures=["Qwen3ForCausalLM"])
    with pytest.raises(errors.UnsupportedError, match="heads for logits of the next word are known of gemma2"):
        load(folder)
    sizes = {"n_embd": 36, "n_head": 3, "n_layer": 2, "n_positions": 64, "vocab_size": 600}
    (folder / "config.json").write_text(json.dumps(sizes | {"model_type": "gpt2"}))
    with pytest.raises(errors.UnsupportedError, match='model_type "gpt2": heads for scores of a sequence are known of'):
        load(folder)


def test_each_class_loads_its_own_folders(tmp_path, tiny_model):
    folder = heads.build("scores", "bert-new", tmp_path)
    with pytest.raises(errors.UnsupportedError, match='model_type "CrossEncoder": CrossEncoder loads it'):
        SentenceTransformer(str(folder), device="cpu")
    with pytest.raises(errors.WeightsError, match="missing classifier.weight"):
        load(tiny_model)
    change_json(folder / "sentence_bert_config.json", transformer_task="text-generation")
    with pytest.raises(errors.UnsupportedError, match='module_output_name "scores": only "causal_logits" is known'):
        load(folder)


def test_embeddings_of_the_same_folder_ignore_the_head(one):
    assert "classifier.weight" in read(one / "model.safetensors")
    assert json.loads((one / "config.json").read_text())["architectures"] == ["BertForSequenceClassification"]
    with SentenceTransformer(str(one), device="cpu") as model:
        assert model.encode(["a dog"]).shape == (1, 36)
