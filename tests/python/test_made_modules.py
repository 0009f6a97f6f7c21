"""Models of modules that were made one by one, `SentenceTransformer(modules=[Transformer(name), Pooling(...)])`."""

import gc
import json
import pickle
import shutil

import numpy as np
import pytest
from models import heads

from grilly import CrossEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder, VulkanSentenceTransformer
from grilly.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    ModelFormatError,
    ModelNotFoundError,
    UnsupportedError,
    UnsupportedNameError,
)
from grilly.sentence_transformer.module_kinds import (
    FLAGS,
    Dense,
    Dropout,
    LayerNorm,
    LogitScore,
    MLMTransformer,
    MultiVectorMask,
    Normalize,
    Pooling,
    Router,
    SpladePooling,
    Transformer,
)

TEXTS = ["a dog and the cat", "one two three " * 40, ""]


def made(*modules, kind=SentenceTransformer, **arguments):
    return kind(modules=list(modules), device="cpu", **arguments)


@pytest.fixture
def parts(tiny_model):
    """A Transformer and its Pooling."""
    first = Transformer(tiny_model, max_seq_length=48)
    return [first, Pooling(first.get_embedding_dimension(), pooling_mode="mean")]


def test_the_real_model_of_its_modules(real_model_path, tmp_path):
    first = Transformer(str(real_model_path), max_seq_length=256)
    with pytest.warns(FutureWarning):
        width = first.get_word_embedding_dimension()
    with SentenceTransformer(real_model_path, device="cpu") as folder:
        expected = folder.encode(TEXTS)
    with made(first, Pooling(width), Normalize()) as model:
        assert np.array_equal(model.encode(TEXTS), expected) and model.model_name == str(real_model_path)
        assert [type(module).__name__ for module in model] == ["Transformer", "Pooling", "Normalize"]
        model.save_pretrained(tmp_path / "saved")
        assert not any(file.is_symlink() for file in (tmp_path / "saved").rglob("*"))
        again = pickle.loads(pickle.dumps(model))
    del model
    for copy in (again, SentenceTransformer(tmp_path / "saved", device="cpu")):
        assert np.array_equal(copy.encode(TEXTS), expected) and copy.max_seq_length == 256


def test_upstreams_class_takes_modules_in_place_of_its_default_name(parts, tiny_model, caplog):
    caplog.set_level("INFO", "grilly")
    with made(*parts, kind=VulkanSentenceTransformer) as model:
        rows = model.encode(TEXTS)
        assert model.model_name == str(tiny_model) and parts[0] == model[0]
        again = pickle.loads(pickle.dumps(model))
    assert isinstance(again, VulkanSentenceTransformer) and np.array_equal(again.encode(TEXTS), rows)
    expected = SentenceTransformer(tiny_model, device="cpu").encode(TEXTS, normalize_embeddings=True)
    assert np.array_equal(rows, expected) and "modules are ignored" not in caplog.text
    with pytest.raises(InvalidTypeError, match=r"modules\[1\] is of type object"):
        made(parts[0], object(), kind=VulkanSentenceTransformer)


def test_without_a_limit_it_is_that_of_the_tokenizer(real_model_path):
    """As in sentence-transformers, where a Transformer does not read the model's sentence_bert_config.json."""
    first = Transformer(real_model_path)
    with pytest.raises(UnsupportedNameError, match="max_seq_length of a Transformer that no model has yet"):
        first.max_seq_length  # noqa: B018
    assert made(first, Pooling(384)).max_seq_length == first.max_seq_length == 512


def test_the_modules_become_those_of_the_model(parts):
    parts[0].max_seq_length = 30
    model = made(*parts)
    assert model.max_seq_length == 30 and parts[0] == model[0] and parts[1] == model[1]
    parts[0].max_seq_length = 12
    parts[1].pooling_mode = "cls"
    assert model.max_seq_length == 12 and model[1].pooling_mode == "cls"
    other = made(*parts)
    assert np.array_equal(other.encode(TEXTS), model.encode(TEXTS)) and parts[0] == other[0] != model[0]


def test_the_folder_lives_as_long_as_the_model(parts, tiny_model):
    gc.disable()  # nothing waits for the collector
    try:
        model = made(*parts)
        parts.clear()
        place = model._folder
        rows = model.encode(TEXTS)
        assert np.array_equal(model.half().float().encode(TEXTS), rows)
        del model
        assert not place.exists() and (tiny_model / "model.safetensors").is_file()
    finally:
        gc.enable()


@pytest.mark.parametrize("mode", [*FLAGS, ("cls", "mean"), ["max", "lasttoken"]])
def test_modes(tiny_model, tmp_path, mode):
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    config = {"embedding_dimension": 32, "pooling_mode": mode, "include_prompt": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    expected = SentenceTransformer(folder, device="cpu").encode(TEXTS, prompt="the ")
    modes = [mode] if isinstance(mode, str) else mode
    with pytest.warns(FutureWarning, match="use pooling_mode"):
        older = Pooling(word_embedding_dimension=32, include_prompt=False, **{FLAGS[name]: True for name in modes})
    for pooling in (Pooling(32, mode, False), older, Pooling.load(folder, subfolder="1_Pooling")):
        model = made(Transformer(tiny_model, max_seq_length=48), pooling, Dropout(0.1))
        assert np.array_equal(model.encode(TEXTS, prompt="the "), expected)


@pytest.mark.parametrize("first", [MLMTransformer, Transformer])
def test_a_sparse_encoder(tmp_path, first):
    folder = heads.build("words", "bert", tmp_path)
    task = {} if first is MLMTransformer else {"transformer_task": "fill-mask"}
    model = made(first(str(folder), **task), SpladePooling("max"), kind=SparseEncoder)
    plain = SparseEncoder(folder, device="cpu")
    assert np.array_equal(model.encode(TEXTS).toarray(), plain.encode(TEXTS).toarray()) and plain.encode(TEXTS).nnz
    model.save_pretrained(tmp_path / "saved")
    saved = SparseEncoder(tmp_path / "saved", device="cpu")
    assert np.array_equal(saved.encode(TEXTS).toarray(), plain.encode(TEXTS).toarray())
    summed = made(first(folder, **task), SpladePooling(pooling_strategy="sum", chunk_size=3), kind=SparseEncoder)
    assert not np.array_equal(summed.encode(TEXTS).toarray(), plain.encode(TEXTS).toarray())


def test_a_multi_vector_encoder(tmp_path):
    folder = heads.build("vectors", "bert", tmp_path)
    plain = MultiVectorEncoder(folder, device="cpu")
    modules = [
        Transformer.load(folder), Dense.load(folder, subfolder="1_Dense"),
        MultiVectorMask.load(folder / "2_MultiVectorMask"), Normalize("token_embeddings"),
    ]  # fmt: skip
    model = made(*modules, kind=MultiVectorEncoder, prompts=plain.prompts)
    model.save_pretrained(tmp_path / "saved")
    for encoder in (model, MultiVectorEncoder(tmp_path / "saved", device="cpu")):
        for encode in ("encode_query", "encode_document"):
            rows, expected = getattr(encoder, encode)(TEXTS), getattr(plain, encode)(TEXTS)
            assert all(np.array_equal(row, other) for row, other in zip(rows, expected, strict=True))


def test_a_cross_encoder(tmp_path):
    folder = heads.build("scores", "llama-logits", tmp_path)
    plain = CrossEncoder(folder, device="cpu")
    model = made(Transformer(folder, transformer_task="text-generation"), LogitScore(599), kind=CrossEncoder)
    pairs = [("one two", "the cat"), ("a dog", "")]
    assert np.array_equal(model.predict(pairs), plain.predict(pairs))


def test_arguments_of_the_transformer(tiny_model):
    older = Transformer(tiny_model, model_args={"torch_dtype": "float16"}, tokenizer_args={"model_max_length": 9})
    model = made(older, Pooling(32))
    assert model.dtype == "float16" and model.max_seq_length == 9
    for wrong in ({"backend": "onnx"}, {"tokenizer_name_or_path": "other"}):
        with pytest.raises(UnsupportedError, match=next(iter(wrong))):
            Transformer(tiny_model, **wrong)
    with pytest.raises(InvalidArgumentError, match="max_seq_length"):
        Transformer(tiny_model, max_seq_length=0)
    with pytest.raises(TypeError, match=r"Transformer.__init__\(\) .*max_seq_lenght"):
        Transformer(tiny_model, max_seq_lenght=3)
    with pytest.raises(ModelNotFoundError):
        Transformer("no-such-model", model_kwargs={"local_files_only": True})
    with pytest.raises(ModelFormatError, match=r"no config.json"):
        Transformer(tiny_model.parent)
    with pytest.raises(UnsupportedError, match="tokenizer of a Transformer that no model has yet"):
        older._made.tokenizer  # noqa: B018


def test_a_folder_with_older_settings_gives_no_warning(real_model_path, recwarn):
    pooling = Pooling.load(real_model_path, subfolder="1_Pooling")
    assert pooling.pooling_mode == "mean" and pooling.embedding_dimension == 384 and not recwarn.list


def test_new_weights_are_refused():
    for kind, given in ((Dense, (32, 8)), (LayerNorm, (32,))):
        with pytest.raises(
            UnsupportedError, match=rf"a new {kind.__name__} is not made: its weights .* load\(folder\)"
        ):
            kind(*given)
    with pytest.raises(UnsupportedError, match="a new Router is not made"):
        Router({})


WRONG = {
    "modules is empty": [],
    r"modules\[0\] is a Pooling: a Transformer is the first": [1, 0],
    r"modules\[2\] is a Transformer: there is one Transformer": [0, 1, 0],
    "modules: .*no Pooling module": [0],
    "modules: .*two Pooling modules": [0, 1, 1],
    "modules: .*Normalize reads sentence_embedding, which no module before it gives": [0, 2, 1],
    "modules: .*SpladePooling reads logits": [0, 3],
    r"modules\[1\] is a Pooling with embedding_dimension 33, and the Transformer gives 32": [0, 4],
}


@pytest.mark.parametrize("said", WRONG)
def test_orders_that_make_no_model(parts, said):
    known = [*parts, Normalize(), SpladePooling(), Pooling(33)]
    with pytest.raises((InvalidArgumentError, UnsupportedError), match=said) as error:
        made(*(known[place] for place in WRONG[said]))
    assert "grilly-modules-" not in str(error.value)


def test_what_is_no_module(parts, tiny_model, tmp_path):
    with pytest.raises(InvalidTypeError, match=r"modules\[1\] is of type object, .*SentenceTransformer\(modules=...\)"):
        made(parts[0], object())
    with pytest.raises(InvalidTypeError, match="modules is of type Pooling"):
        SentenceTransformer(modules=parts[1])
    with SentenceTransformer(tiny_model, device="cpu") as model:
        with pytest.raises(UnsupportedError, match=r"modules\[0\] is a view of a loaded model.*Transformer\(...\)"):
            made(model[0], parts[1])
    for wrong in ({"pooling_mode": "nope"}, {"pooling_mode": ()}, {"embedding_dimension": 0}):
        with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
            Pooling(**({"embedding_dimension": 32} | wrong))
    with pytest.raises(InvalidArgumentError, match="pooling_strategy"):
        SpladePooling("mean")
    config = tiny_model / "1_Pooling" / "config.json"
    (tmp_path / "config.json").write_text(json.dumps(json.loads(config.read_text()) | {"depth": 3}))
    with pytest.raises(ModelFormatError, match=r"config.json: .*depth"):
        Pooling.load(tmp_path)
    with pytest.raises(ModelFormatError, match="expected the folder of a Dense"):
        Dense.load(tiny_model, subfolder="2_Dense")
