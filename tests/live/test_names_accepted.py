"""What sentence-transformers 6.2 accepts: older keywords, modules as attributes, sparse tensors, the device."""

import inspect

import numpy as np
import pytest
import sentence_transformers
import torch
from models import heads, routers
from sentence_transformers import util as their_util
from sentence_transformers.util import decorators

from grilly import CrossEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder
from grilly.sentence_transformer.aliases import OLDER, OLDER_POSITIONS

PAIRS = [("a dog", "the cat and a dog"), ("one two three", ""), ("a dog", "a dog")]
TEXTS = ["a dog and the cat", "one two three", "", "a dog"]
LOGITS = torch.nn.Identity()
CLASSES = (
    sentence_transformers.SentenceTransformer,
    sentence_transformers.SparseEncoder,
    sentence_transformers.CrossEncoder,
    sentence_transformers.MultiVectorEncoder,
)


@pytest.fixture(scope="module")
def rankers(tmp_path_factory):
    folders = heads.build_both("scores", "bert", tmp_path_factory.mktemp("scores"))
    with CrossEncoder(folders[0], device="cpu") as ours:
        yield ours, sentence_transformers.CrossEncoder(str(folders[1]), device="cpu"), folders


@pytest.fixture(scope="module")
def sparse(tmp_path_factory):
    folders = heads.build_both("words", "bert", tmp_path_factory.mktemp("words"))
    with SparseEncoder(folders[0], device="cpu") as ours:
        yield ours, sentence_transformers.SparseEncoder(str(folders[1]), device="cpu")


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    with MultiVectorEncoder(heads.build("vectors", "bert", tmp_path_factory.mktemp("vectors")), device="cpu") as ours:
        yield ours


# ----------------------------------------------------------------------------------------------------------- keywords


def renames(function) -> dict[str, str]:
    """What decorators around a function rename, by the names in their closures."""
    found: dict[str, str] = {}
    while function is not None:
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            found |= cell.cell_contents if name == "renames" else {}
        function = getattr(function, "__wrapped__", None)
    return found


def test_the_table_of_older_keywords_has_all_of_theirs():
    for kind in CLASSES:
        name = kind.__name__
        for method, function in inspect.getmembers(kind, inspect.isfunction):
            place = {"__init__": name, "encode_query": f"{name}.encode", "encode_document": f"{name}.encode"}
            ours = OLDER.get(place.get(method, f"{name}.{method}"), {})
            for older, present in renames(function).items():
                # Their decorator renames `sentences` of `rank`, too, to a name that it does not have.
                assert ours.get(older, present if (method, older) == ("rank", "sentences") else None) == present
    source = inspect.getsource(decorators.cross_encoder_init_args_decorator)
    for older, present in OLDER["CrossEncoder"].items():
        assert f'"{older}": "{present}"' in source or (present is None and f'"{older}" in kwargs' in source)
    assert str(OLDER_POSITIONS["CrossEncoder"]).replace("'", '"') in source
    source = inspect.getsource(decorators.cross_encoder_predict_rank_args_decorator)
    for older, present in (OLDER["CrossEncoder.predict"] | OLDER["CrossEncoder.rank"]).items():
        assert f'{older}="{present}"' in source if present else f'"{older}"' in source


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((PAIRS,), {"activation_fct": LOGITS, "num_workers": 2}),
        ((), {"sentences": PAIRS}),
        ((PAIRS, 32, False), {}),
        ((PAIRS,), {"prompt": False}),
        ((PAIRS,), {"activation_fct": LOGITS, "activation_fn": torch.nn.Sigmoid()}),
        ((), {"inputs": PAIRS[:1], "sentences": PAIRS}),
        ((PAIRS, 32), {}),
        ((PAIRS, 32, True), {}),
        ((PAIRS,), {"sentences": PAIRS}),
    ],
)
def test_calls_of_predict(rankers, arguments, options):
    ours, theirs, _ = rankers
    try:
        expected = theirs.predict(*arguments, **options)
    except Exception as error:
        with pytest.raises(type(error)):
            ours.predict(*arguments, **options)
        return
    assert np.abs(ours.predict(*arguments, **options) - expected).max() <= 1e-5


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"top_k": 2, "return_documents": True},
        {"top_k": 0},
        {"top_k": -1},
        {"activation_fct": LOGITS, "num_workers": 0},
        {"apply_softmax": True, "convert_to_numpy": False, "convert_to_tensor": True},
        {"batch_size": 1, "show_progress_bar": False, "prompt": "the "},
        {"sentences": PAIRS},
        {"nonsense": 1},
        {"top_k": 2.0},
    ],
)
def test_calls_of_rank(rankers, options):
    documents = ["rain", "the cat and a dog", "a dog"]
    ours, theirs, _ = rankers
    try:
        expected = theirs.rank("a dog", documents, **options)
    except Exception as error:
        with pytest.raises(type(error)):
            ours.rank("a dog", documents, **options)
        return
    found = ours.rank("a dog", documents, **options)
    assert [{k: v for k, v in row.items() if k != "score"} for row in found] == [
        {k: v for k, v in row.items() if k != "score"} for row in expected
    ]
    assert [type(row["score"]) for row in found] == [type(row["score"]) for row in expected]
    assert np.allclose([row["score"] for row in found], [row["score"] for row in expected], atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((), {"default_activation_function": LOGITS}),
        ((), {"automodel_args": {"dtype": torch.float16}}),
        ((), {"tokenizer_args": {"model_max_length": 9}}),
        ((), {"tokenizer_kwargs": {"model_max_length": 9}}),
        ((), {"config_args": {}}),
        ((), {"classifier_dropout": 0.1}),
        ((), {"keep_in_fp32_modules": ["0.model.classifier"]}),
        ((1, 20, LOGITS, "cpu"), {}),
        ((1, 20), {"max_length": 12}),
    ],
)
def test_calls_of_the_constructor(rankers, arguments, options):
    folders = rankers[2]
    options = options if len(arguments) > 3 else options | {"device": "cpu"}
    theirs = sentence_transformers.CrossEncoder(str(folders[1]), *arguments, **options)
    with CrossEncoder(str(folders[0]), *arguments, **options) as ours:
        assert (ours.max_seq_length, ours.num_labels) == (theirs.max_seq_length, theirs.num_labels)
        assert ours.keep_in_fp32_modules == theirs.keep_in_fp32_modules and f"torch.{ours.dtype}" == str(theirs.dtype)
        tolerance = 1e-5 if ours.dtype == "float32" else 5e-3
        assert np.abs(ours.predict(PAIRS) - theirs.predict(PAIRS)).max() <= tolerance


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_name_of_an_instance(kind, rankers, sparse, late, checkpoint):
    """Those of torch's modules, too, are here or say what to do."""
    with SentenceTransformer(checkpoint("base"), device="cpu") as plain:
        models = (plain, sparse[0], rankers[0], late)
        model = dict(zip((kind.__name__ for kind in CLASSES), models, strict=True))[kind.__name__]
        for name in dir(kind):
            if not name.startswith("_") and not hasattr(model, name):
                with pytest.raises(AttributeError, match="is left out: .{12}"):
                    getattr(model, name)


# ------------------------------------------------------------------------------------------------------------ modules


def settings(module) -> dict:
    found = dict(module.get_config_dict())
    if "activation_function" in found and not isinstance(found["activation_function"], str):
        found["activation_function"] = their_util.fullname(found["activation_function"])
    return found


@pytest.mark.parametrize(
    "name",
    [
        "base",
        "no_modules",
        "every_module",
        "dense_two",
        "dense_of_tokens",
        "dense_residual",
        "pooling_old_two",
        "layers_all",
    ],
)
def test_modules_have_their_settings(checkpoint, name):
    folder = str(checkpoint(name))
    theirs = sentence_transformers.SentenceTransformer(folder, device="cpu")
    with SentenceTransformer(folder, device="cpu") as ours:
        assert list(ours._modules) == list(theirs._modules) and len(ours) == len(theirs)
        for own, other in zip(ours, theirs, strict=True):
            assert type(own).__name__ == type(other).__name__
            expected = settings(other)
            found = {key: settings(own).get(key) for key in expected}
            assert type(own).__name__ == "Dropout" or found == expected
            if hasattr(other, "get_embedding_dimension"):
                assert own.get_embedding_dimension() == other.get_embedding_dimension()


def test_a_limit_that_is_set_by_the_module(checkpoint, texts):
    folder = str(checkpoint("base"))
    theirs = sentence_transformers.SentenceTransformer(folder, device="cpu")
    with SentenceTransformer(folder, device="cpu") as ours:
        for model in (ours, theirs):
            model[0].max_seq_length = 7
        assert ours.max_seq_length == theirs.max_seq_length == 7
        assert np.abs(ours.encode(texts[::11]) - theirs.encode(texts[::11])).max() <= 1e-5


@pytest.mark.parametrize(
    "mode", ["cls", "max", "lasttoken", "weightedmean", ("cls", "mean"), ("mean", "mean_sqrt_len_tokens")]
)
def test_modes_that_are_set(checkpoint, texts, device, mode):
    folder = str(checkpoint("base"))
    theirs = sentence_transformers.SentenceTransformer(folder, device="cpu")
    with SentenceTransformer(folder, device=device) as ours:
        for model in (ours, theirs):
            model[1].pooling_mode = mode
            model[1].include_prompt = False
        found, expected = (model.encode(texts[::17], prompt="the way ") for model in (ours, theirs))
        assert found.shape == expected.shape and np.abs(found - expected).max() <= 1e-5
        assert ours[1].pooling_mode == theirs[1].pooling_mode


def test_a_router(tmp_path):
    folder = str(routers.build("two-encoders", tmp_path))
    theirs = sentence_transformers.SentenceTransformer(folder, device="cpu")
    with SentenceTransformer(folder, device="cpu") as ours:
        own, other = ours[0], theirs[0]
        assert list(own.sub_modules) == list(other.sub_modules) and own.default_route == other.default_route
        assert own.max_seq_length == other.max_seq_length
        for route, modules in other.sub_modules.items():
            for view, module in zip(own.sub_modules[route], modules, strict=True):
                assert type(view).__name__ == type(module).__name__
                assert getattr(view, "max_seq_length", None) == getattr(module, "max_seq_length", None)


# ------------------------------------------------------------------------------------------------------------- device


def test_tensors_move_to_the_device_of_a_model(checkpoint, device):
    with SentenceTransformer(checkpoint("base"), device=device) as model:
        rows = model.encode(TEXTS, convert_to_tensor=True)
        assert model.device == rows.device == torch.device(model.device) and rows.device == model.device
        assert torch.zeros(2).to(model.device).device == torch.zeros(2, device=model.device).device == rows.device
        assert (model.device.type, model.device.index) == (rows.device.type, rows.device.index)
