"""Every setting of `fixtures/settings.json`: another value has an effect, is refused by its name, or changes nothing.

`live/test_settings.py` compares the same with sentence-transformers.
"""

import json
import shutil

import numpy as np
import pytest
from models import safetensors_file, settings, torch_file

import grilly
from grilly import errors

#: What errors name in place of the key: what it leads to.
OTHERS = "adapter|expected|dimension is|missing|module my_package"


def ours(kind):
    return getattr(grilly, kind)


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """Results of each folder as it is."""
    return settings.before(ours, tmp_path_factory.mktemp("before"))


@pytest.mark.parametrize("file, key, effect, name, value", settings.rows())
def test_no_setting_is_dropped(before, tmp_path, file, key, effect, name, value):
    folder = settings.build(name, tmp_path / "model")
    arguments = settings.change(folder, file, key, value)
    if effect == "refused":
        words = key.rpartition("/")[2]
        with pytest.raises((errors.GrillyError, NotImplementedError, ValueError), match=f"(?i){words}|{OTHERS}"):
            settings.results(ours, name, folder, arguments)
        return
    after = settings.results(ours, name, folder, arguments)
    same = all(np.array_equal(one, other) for one, other in zip(before(name), after, strict=True))
    assert same == (effect == "nothing")


def test_which_weights_count(tmp_path):
    """safetensors, or torch's file where `use_safetensors` is False."""
    folder = settings.build("bert", tmp_path / "model")
    with grilly.SentenceTransformer(folder, device="cpu") as model:
        rows = model.encode(settings.TEXTS)
    tensors = safetensors_file.read(folder / "model.safetensors")
    torch_file.write(folder / "pytorch_model.bin", {name: 0.5 * array for name, array in tensors.items()})
    for asked, same in ((None, True), (True, True), (False, False)):
        arguments = {} if asked is None else {"model_kwargs": {"use_safetensors": asked}}
        with grilly.SentenceTransformer(folder, device="cpu", **arguments) as model:
            assert np.array_equal(model.encode(settings.TEXTS), rows) == same
    (folder / "model.safetensors").unlink()
    with grilly.SentenceTransformer(folder, device="cpu") as model:
        assert not np.array_equal(model.encode(settings.TEXTS), rows)


def test_products_that_stay_in_float32(tmp_path):
    """A list of them in a CrossEncoder's settings changes nothing in float32, and is refused in 16 bits."""
    folder = settings.build("cross", tmp_path / "model")
    settings.change(folder, "config_sentence_transformers.json", "keep_in_fp32_modules", ["0.model.classifier"])
    with pytest.raises(errors.UnsupportedError, match=r"keep_in_fp32_modules.*dtype=.float32"):
        grilly.CrossEncoder(folder, device="cpu", dtype="bfloat16")


def test_folders_that_are_no_models(tmp_path):
    """An adapter and GGUF files are called what they are, with what to do."""
    (tmp_path / "model.Q4_0.gguf").write_bytes(b"GGUF")
    with pytest.raises(errors.UnsupportedError, match="GGUF files without a config.json.*fetch the repository"):
        grilly.SentenceTransformer(tmp_path, device="cpu")
    with pytest.raises(errors.ModelNotFoundError, match="a GGUF file, which is not read; fetch the repository"):
        grilly.SentenceTransformer(tmp_path / "model.Q4_0.gguf", device="cpu")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "some/base"}))
    with pytest.raises(errors.UnsupportedError, match="a PEFT adapter.*merge it into some/base"):
        grilly.SentenceTransformer(adapter, device="cpu")


def test_a_saved_model_keeps_its_arguments(tmp_path):
    folder = settings.build("bert", tmp_path / "model")
    arguments = {"config_kwargs": {"num_hidden_layers": 1}, "processor_kwargs": {"truncation_side": "left"}}
    with grilly.SentenceTransformer(folder, device="cpu", max_seq_length=9, **arguments) as model:
        model.save_pretrained(tmp_path / "saved")
        shutil.rmtree(folder)
        with grilly.SentenceTransformer(tmp_path / "saved", device="cpu") as again:
            assert np.array_equal(again.encode(settings.TEXTS), model.encode(settings.TEXTS))
