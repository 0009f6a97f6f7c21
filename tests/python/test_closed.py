"""Attributes that callers set on objects of the package: each has an effect, any other is an error that names one."""

import copy
import pickle
from unittest import mock

import numpy as np
import pytest
from package_modules import modules

import grilly
from grilly import CrossEncoder, SentenceTransformer, SparseEncoder, VulkanSentenceTransformer, nn, optim
from grilly.closed import closed, set_attribute
from grilly.errors import UnsupportedError, UnsupportedNameError
from grilly.utils.data import DataLoader, Dataset

#: Made for subclassing, or told by Python itself.
OPEN = (nn.Module, optim.Optimizer, optim.LRScheduler, optim.ReduceLROnPlateau, Dataset, BaseException)


def classes():
    """Every public class that a module of the package defines."""
    for module in modules():
        for name in getattr(module, "__all__", ()):
            kind = getattr(module, name)
            if isinstance(kind, type) and kind.__module__ == module.__name__ and not issubclass(kind, OPEN):
                yield kind


CLASSES = sorted(set(classes()), key=lambda kind: f"{kind.__module__}.{kind.__name__}")


def blank(kind):
    """An object of a class without its attributes."""
    if issubclass(kind, tuple):
        return tuple.__new__(kind, [0] * len(kind._fields))
    if issubclass(kind, np.ndarray):
        return np.float32([1]).view(kind)
    return next(iter(kind)) if hasattr(kind, "__members__") else kind.__new__(kind)


def test_there_are_many():
    assert len(CLASSES) > 50 and {SentenceTransformer, DataLoader, nn.Parameter} < set(CLASSES)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_another_name_is_an_error(kind):
    assert kind.__setattr__ is set_attribute
    thing = blank(kind)
    with pytest.raises(AttributeError, match=f"{kind.__name__} has no attribute 'no_such_name' to set; "):
        thing.no_such_name = 1
    for name in kind._settable:
        with pytest.raises(AttributeError, match=f"'{name}e' to set; the nearest name is '{name}'; settable: .*{name}"):
            setattr(thing, f"{name}e", 1)


@pytest.fixture(params=[SentenceTransformer, VulkanSentenceTransformer])
def model(request, tiny_model):
    with request.param(tiny_model, device="cpu") as model:
        yield model


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("max_seq_lenght", "the nearest name is 'max_seq_length'"),
        ("truncate_dims", "the nearest name is 'truncate_dim'"),
        ("prompt", "the nearest name is 'prompts'"),
        ("default_prompt", "the nearest name is 'default_prompt_name'"),
        ("similarity_fn", "the nearest name is 'similarity_fn_name'"),
        ("dtype", r"dtype cannot be set: to\(dtype=...\)"),
        ("tokenizer", "tokenizer cannot be set: .*padding_side"),
        ("config", "config cannot be set: .*config_kwargs"),
        ("model_name", "model_name cannot be set"),
        ("backend", "backend cannot be set; settable: .*max_seq_length"),
        ("zzz", "has no attribute 'zzz' to set; settable: "),
        ("encode", "encode cannot be set"),
    ],
)
def test_what_a_model_refuses(model, name, message):
    with pytest.raises(AttributeError, match=message):
        setattr(model, name, 5)


@pytest.mark.parametrize("name", ["model_card_data", "training", "best_score", "module_kwargs"])
def test_what_is_left_out_has_its_remedy(model, name):
    with pytest.raises(UnsupportedNameError, match=f"{name} is left out"):
        setattr(model, name, 5)


def test_a_method_may_be_replaced(model):
    model.similarity = lambda a, b: "mine"
    assert model.similarity(None, None) == "mine"
    with mock.patch.object(model, "encode", return_value=7):
        assert model.encode("a") == 7
    assert model.encode("a").shape == (32,)


def test_subclasses_and_private_names_are_free(tiny_model):
    class Mine(SentenceTransformer):
        def __init__(self, folder):
            super().__init__(folder, device="cpu")
            self.notes = self.training = self.dtypes = 3

    with Mine(tiny_model) as model:
        model._anything = model.nothing_like_it = 1
        assert (model.notes, model.nothing_like_it) == (3, 1)
    with SentenceTransformer(tiny_model, device="cpu") as model:
        model._anything = 1
    for thing in (nn.Linear(2, 1), optim.SGD(nn.Linear(2, 1).parameters(), lr=0.1)):
        thing.notes = 1


def test_copies_are_closed_too(model):
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with again, pytest.raises(AttributeError, match="max_seq_length"):
            again.max_seq_lengths = 3
    for thing in (grilly.sparse.SparseRows.of(np.ones((1, 2), np.float32)), nn.Parameter([1.0])):
        with pytest.raises(AttributeError):
            copy.deepcopy(thing).value = 3


def test_other_classes(tmp_path):
    loader = DataLoader([1, 2, 3], batch_size=2)
    loader.collate_fn = sum
    assert list(loader) == [3, 3]
    with pytest.raises(AttributeError, match="batch_size cannot be set; settable: batch_sampler"):
        loader.batch_size = 1
    p = nn.Parameter([1.0, 2.0])
    p.shape = (2, 1)
    p.requires_grad = False
    with pytest.raises(AttributeError, match="the nearest name is 'requires_grad'"):
        p.requires_gradient = True
    with pytest.raises(AttributeError, match="shape cannot be set"):
        grilly.to_vulkan([1.0], "cpu").shape = (1,)


def test_a_class_of_the_package_that_is_made_in_a_test():
    @closed("a", b="c gives it")
    class Some:
        __module__ = "grilly.some"

    some = Some()
    some.a = 1
    with pytest.raises(AttributeError, match="Some.b cannot be set: c gives it"):
        some.b = 1


# ----------------------------------------------------------------------------------------------------- the tokenizer


def test_what_a_tokenizer_takes(tiny_model, tmp_path):
    text = "the cat and the dog"
    with SentenceTransformer(tiny_model, device="cpu") as model:
        tokenizer = model.tokenizer
        tokenizer.model_max_length = 4
        assert model.max_seq_length == 4 and (model.encode(text) == model.encode("the cat")).all()
        model.max_seq_length = 5
        assert tokenizer.model_max_length == 5
        tokenizer.truncation_side = "left"
        assert (model.encode(text) == model.encode("and the dog")).all()
        tokenizer.pad_token = "[MASK]"
        mask = tokenizer.mask_token_id
        assert tokenizer(["the cat", ""], padding=True)["input_ids"][1][2:] == [mask, mask]
        assert model.preprocess(["the cat", ""])["input_ids"].tolist()[1][2:] == [mask, mask]
        model.save_pretrained(tmp_path)
        for again in (pickle.loads(pickle.dumps(model)), SentenceTransformer(tmp_path, device="cpu")):
            with again:
                assert again.tokenizer.pad_token == "[MASK]" and again.tokenizer.truncation_side == "left"
                assert (again.encode(text) == model.encode(text)).all()
        before = model.encode(text)
        assert (model.half().float().encode(text) == before).all()
        for name, value in (("padding_side", "top"), ("truncation_side", None), ("pad_token", "no such token")):
            with pytest.raises(ValueError, match=name):
                setattr(tokenizer, name, value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model_max_lenght", "the nearest name is 'model_max_length'"),
        ("padding_sides", "the nearest name is 'padding_side'"),
        ("cls_token", "cls_token cannot be set: .*copy of the model's folder"),
        ("vocab_size", "vocab_size cannot be set; settable: "),
        ("model_input_names", "model_input_names cannot be set: "),
        ("chat_template", "chat_template cannot be set: "),
    ],
)
def test_what_a_tokenizer_refuses(cpu_model, name, message):
    with pytest.raises(AttributeError, match=message):
        setattr(cpu_model.tokenizer, name, 5)


def test_padding_before_texts_in_a_table_of_positions(tiny_model, checkpoint):
    with SentenceTransformer(tiny_model, device="cpu") as model:
        with pytest.raises(UnsupportedError, match=r"padding_side is 'left'.*model.tokenizer\(texts"):
            model.tokenizer.padding_side = "left"
        assert model.tokenizer(["a", ""], padding=True, padding_side="left")["attention_mask"] == [[1] * 3, [0, 1, 1]]


def test_rerankers_and_sparse_models(tmp_path):
    from models import heads

    with CrossEncoder(heads.build("scores", "bert", tmp_path / "scores"), device="cpu") as model:
        model.activation_fn = lambda logits: 0 * logits
        assert model.predict([("a", "b")])[0] == 0
        with pytest.raises(AttributeError, match="'activation_fn'"):
            model.activation_fnn = None
    with SparseEncoder(heads.build("words", "bert", tmp_path / "words"), device="cpu") as model:
        model.max_active_dims = 2
        assert len(model.encode("the cat").values) == 2
        with pytest.raises(AttributeError, match="'max_active_dims'"):
            model.max_active_dim = 3
