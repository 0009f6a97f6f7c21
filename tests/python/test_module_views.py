"""`model[0]`, iteration, settings of modules by attribute, `model.device` and `trust_remote_code`."""

import json
import logging
import math
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from models import heads, routers

from grilly import CrossEncoder, SentenceTransformer, SparseEncoder, VulkanSentenceTransformer
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError, UnsupportedNameError
from grilly.place import Place
from grilly.sentence_transformer.module_kinds import FLAGS

TEXTS = ["a dog and the cat", "one two three", ""]


def load(folder, **arguments) -> SentenceTransformer:
    return SentenceTransformer(folder, device="cpu", **arguments)


@pytest.fixture
def model(tiny_model):
    with load(tiny_model) as model:
        yield model


# ------------------------------------------------------------------------------------------------------------ sequence


def test_the_sequence(model):
    assert len(model) == 2 and [type(module).__name__ for module in model] == ["Transformer", "Pooling"]
    assert model[0] == model[-2] == model._first_module() == model[np.int64(0)] and model[0] in list(model)
    assert model[-1] == model[1] == model._last_module() == next(reversed(model)) and model[0] != model[1]
    assert list(model._modules) == ["0", "1"] and model._modules["1"] == model[1] and len({*model, *model}) == 2
    assert list(model.children()) == list(model) and dict(model.named_children()) == dict(model._modules)
    for place in (2, -3):
        with pytest.raises(IndexError, match=f"no module {place} of 2"):
            model[place]
    with pytest.raises(InvalidTypeError, match=r"list\(model\)"):
        model[:1]
    with pytest.raises(InvalidTypeError, match="number of a module is of type str"):
        model["0"]
    with pytest.raises(TypeError):
        model._modules["0"] = None
    for change in (lambda: model.__setitem__(1, None), lambda: model.__delitem__(1), lambda: model.append(model[1])):
        with pytest.raises(UnsupportedError, match="with sentence-transformers, save the model"):
            change()


def test_a_view_reads_the_model_that_it_is_of(tiny_model):
    with VulkanSentenceTransformer(tiny_model, device="cpu") as model:
        first = model[0]
        model.max_seq_length = 20
        assert first.max_seq_length == 20
        model.half()
        first.max_seq_length = 12
        assert model.max_seq_length == 12 == len(model.tokenizer.encode("word " * 50, truncation=True))


# ------------------------------------------------------------------------------------------------------------ settings


def test_a_transformer(model):
    first = model[0]
    assert (first.max_seq_length, first.do_lower_case, first.get_embedding_dimension()) == (48, False, 32)
    assert first.tokenizer is model.tokenizer is first.processor is model.processor
    assert first.config == model.config and first.modalities == ["text"] and first.backend == model.backend
    assert np.array_equal(first.tokenize(TEXTS)["input_ids"], model.preprocess(TEXTS)["input_ids"])
    assert repr(first).startswith("Transformer({'transformer_task': 'feature-extraction', 'modality_config': ")
    for name in ("auto_model", "model"):
        assert not hasattr(first, name)
        with pytest.raises(UnsupportedNameError, match=f"Transformer.{name} is left out: model.config is config.json"):
            getattr(first, name)
    with pytest.raises(AttributeError, match="no attribute 'max_seq_len'; the nearest name is 'max_seq_length'"):
        first.max_seq_len  # noqa: B018
    with pytest.raises(
        AttributeError, match="no attribute 'max_seq_lenght' to set; the nearest name is 'max_seq_length'"
    ):
        first.max_seq_lenght = 3
    with pytest.raises(AttributeError, match="do_lower_case cannot be set: change the module's files"):
        first.do_lower_case = True
    with pytest.warns(FutureWarning):
        assert first.get_word_embedding_dimension() == 32
    with pytest.raises(InvalidArgumentError, match="max_seq_length"):
        first.max_seq_length = 0


def test_a_pooling(model):
    pooling = model[1]
    assert (pooling.pooling_mode, pooling.include_prompt, pooling.embedding_dimension) == ("mean", True, 32)
    assert pooling.get_config_dict() == {"embedding_dimension": 32, "pooling_mode": "mean", "include_prompt": True}
    assert repr(pooling) == f"Pooling({pooling.get_config_dict()})" and pooling.get_pooling_mode_str() == "mean"
    assert (
        pooling.pooling_output_dimension == pooling.get_embedding_dimension() == pooling.word_embedding_dimension == 32
    )
    assert [name for name in FLAGS.values() if getattr(pooling, name)] == ["pooling_mode_mean_tokens"]
    rows = model.encode(TEXTS, prompt="the way ")
    pooling.include_prompt = False
    assert pooling.include_prompt is False and not np.array_equal(model.encode(TEXTS, prompt="the way "), rows)
    model.set_pooling_include_prompt(True)
    assert pooling.include_prompt is True and np.array_equal(model.encode(TEXTS, prompt="the way "), rows)
    with pytest.raises(AttributeError, match="embedding_dimension cannot be set: change the module's files"):
        pooling.embedding_dimension = 3
    with pytest.raises(AttributeError, match="nearest name is 'pooling_mode"):
        pooling.pooling_modes = "cls"
    for wrong in ("nope", (), ("mean", "nope")):
        with pytest.raises(InvalidArgumentError, match="expected one or more of cls, max, mean"):
            pooling.pooling_mode = wrong
    assert np.array_equal(model.encode(TEXTS, prompt="the way "), rows)


@pytest.mark.parametrize("mode", [*FLAGS, ("cls", "mean"), ["max", "lasttoken", "max"]])
def test_modes_that_are_set_are_those_of_a_folder_with_them(model, tiny_model, tmp_path, mode):
    folder = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    config = {"embedding_dimension": 32, "pooling_mode": mode, "include_prompt": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    model.max_seq_length = 20
    model[1].include_prompt = False
    model[1].pooling_mode = mode
    with load(folder, max_seq_length=20) as other:
        expected = other.encode(TEXTS, prompt="the ")
        assert model[1].pooling_mode == other[1].pooling_mode and model.pooling_type == other.pooling_type
        assert model.get_embedding_dimension() == other.get_embedding_dimension() == expected.shape[1]
    assert np.array_equal(model.encode(TEXTS, prompt="the "), expected)
    model.save_pretrained(tmp_path / "saved")
    for again in (pickle.loads(pickle.dumps(model)), load(tmp_path / "saved"), model.to(dtype="bfloat16").float()):
        assert np.array_equal(again.encode(TEXTS, prompt="the "), expected)


def test_modes_by_their_older_attributes(model):
    pooling = model[1]
    mean = model.encode(TEXTS)
    with pytest.raises(InvalidArgumentError, match="without pooling_mode_mean_tokens no mode is left: set another"):
        pooling.pooling_mode_mean_tokens = False
    pooling.pooling_mode_cls_token = True
    assert pooling.pooling_mode == ("cls", "mean") and np.array_equal(model.encode(TEXTS)[:, 32:], mean)
    pooling.pooling_mode_mean_tokens = False
    assert pooling.pooling_mode == "cls" and pooling.pooling_mode_cls_token and not pooling.pooling_mode_mean_tokens
    assert not np.array_equal(model.encode(TEXTS), mean)


def test_a_bare_transformer_is_saved_with_its_modes(tiny_model, tmp_path):
    folder = tmp_path / "bare"
    folder.mkdir()
    for file in tiny_model.iterdir():
        if file.is_file() and file.name != "modules.json":
            shutil.copy(file, folder)
    with load(folder) as model:
        model[1].pooling_mode = ("max", "cls")
        model.save_pretrained(tmp_path / "saved")
        with load(tmp_path / "saved") as again:
            assert np.array_equal(again.encode(TEXTS), model.encode(TEXTS)) and again[1].pooling_mode == ("max", "cls")
            assert again[1].embedding_dimension == 32


@pytest.mark.parametrize(
    ("name", "place", "kind", "settings"),
    [
        ("dense_tanh", 2, "Dense", None),
        (
            "normalize",
            -1,
            "Normalize",
            {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"},
        ),
    ],
)
def test_other_modules(checkpoint, name, place, kind, settings):
    with load(checkpoint(name)) as model:
        module = model[place]
        assert type(module).__name__ == kind and repr(module).startswith(f"{kind}(")
        assert settings is None or module.get_config_dict() == settings
        if kind == "Dense":
            config = json.loads((checkpoint(name) / "2_Dense" / "config.json").read_text())
            assert config.items() <= module.get_config_dict().items()
            assert module.get_embedding_dimension() == module.out_features == config["out_features"]
            with pytest.raises(UnsupportedNameError, match="Dense.linear is left out"):
                module.linear  # noqa: B018
        else:
            assert not hasattr(module, "get_embedding_dimension")


def test_modules_of_the_other_classes(tmp_path):
    with CrossEncoder(heads.build("scores", "bert", tmp_path), device="cpu") as ranker:
        assert len(ranker) == 1 and ranker[0].transformer_task == "sequence-classification"
        ranker[0].max_seq_length = 9
        assert ranker.max_seq_length == 9 and ranker._last_module() == ranker[0]
    with SparseEncoder(heads.build("words", "bert", tmp_path), device="cpu") as sparse:
        pooling = sparse[1]
        assert (pooling.pooling_strategy, pooling.activation_function) == ("max", "relu")
        assert pooling.embedding_dimension == pooling.get_embedding_dimension() == 600 and pooling.chunk_size is None
        pooling.chunk_size = 4
        with pytest.raises(AttributeError, match="pooling_strategy cannot be set: change the module's files"):
            pooling.pooling_strategy = "sum"


def test_a_router(tmp_path):
    with load(routers.build("two-encoders", tmp_path)) as model:
        router = model[0]
        assert type(router).__name__ == "Router" and list(router.sub_modules) == ["short", "long", "document"]
        query, document = router.sub_modules["long"], router.sub_modules["document"]
        assert [type(module).__name__ for module in query] == ["Transformer", "Pooling", "Dense"]
        limits = [modules[0].max_seq_length for modules in router.sub_modules.values()]
        assert len(set(limits)) > 1 and router.max_seq_length == max(limits) == model.max_seq_length
        assert router.get_embedding_dimension() == router.sub_modules["short"][1].get_embedding_dimension()
        assert router.route_mappings and router.get_config_dict().keys() == {"default_route", "route_mappings"}
        for change in (
            lambda: setattr(query[0], "max_seq_length", 7),
            lambda: setattr(query[1], "include_prompt", False),
            lambda: setattr(query[1], "pooling_mode", "cls"),
        ):
            with pytest.raises(UnsupportedNameError):
                change()
        ids = query[0].preprocess(["a dog"])["input_ids"]
        assert np.array_equal(ids, model.preprocess(["a dog"], task="long")["input_ids"])
        router.max_seq_length = 7
        assert query[0].max_seq_length == document[0].max_seq_length == 7


def test_a_table_of_tokens(tmp_path):
    with load(routers.build("table-and-encoder", tmp_path)) as model:
        table = model[0].sub_modules["query"][0]
        assert type(table).__name__ == "StaticEmbedding" and table.max_seq_length == math.inf
        assert table.get_embedding_dimension() == table.embedding_dim and table.num_embeddings > 0


# -------------------------------------------------------------------------------------------------------------- device


class Device:
    """As a device of torch is."""

    type, index = "cpu", None

    def __str__(self) -> str:
        return self.type


@pytest.mark.parametrize("requested", ["cpu", "vulkan", "vulkan:0"])
def test_the_place_of_results(requested):
    place = Place(requested)
    assert place == "cpu" and "cpu" == place and place == Device() and place != "vulkan" and place != 3
    assert (
        place in {"cpu": 1}
        and isinstance(place, str)
        and f"{place}" == "cpu"
        and (place.type, place.index) == ("cpu", None)
    )
    again = pickle.loads(pickle.dumps(place))
    assert again == place and again.requested == requested


def test_the_device_of_a_model(tiny_model, device, caplog):
    with SentenceTransformer(tiny_model, device=device) as model:
        assert model.device == "cpu" and model.requested_device == model.backend == device
        # Given back, it is the model's own device.
        assert (
            np.array_equal(model.encode(TEXTS, device=model.device), model.encode(TEXTS)) and not model._held.elsewhere
        )
        assert model.to(model.device).requested_device == device
        with SentenceTransformer(tiny_model, device=model.device) as other:
            assert other.requested_device == device
        assert model._target_device == "cpu"
        model._target_device = "cpu"
        assert model.requested_device == "cpu" and "_target_device is the older" in caplog.text
        with pytest.raises(AttributeError):
            model.device = "cpu"


def test_no_code_is_trusted(tiny_model, caplog):
    caplog.set_level(logging.INFO, "grilly")
    with load(tiny_model) as model:
        assert model.trust_remote_code is False
        model.trust_remote_code = True
        assert model.trust_remote_code is True and "no code of the model's repository is run" in caplog.text
        assert pickle.loads(pickle.dumps(model)).trust_remote_code is True
    with load(tiny_model, trust_remote_code=True) as model:
        assert model.trust_remote_code is True
