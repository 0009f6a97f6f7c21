"""A saved model is the model: its files, with the settings as they stood."""

import json
import os
import shutil

import numpy as np
import pytest
from models import families

from grilly import SentenceTransformer, VulkanSentenceTransformer
from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.sentence_transformer import saving

TEXTS = ["the cat", "", "a dog and a child and the world", "way of life " * 100]


def files(folder) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", ["base", "prompt_default", "dense_residual", "sharded"])
def test_a_saved_model_gives_the_same_bits(checkpoint, tmp_path, name):
    with SentenceTransformer(checkpoint(name), device="cpu") as model:
        model.save_pretrained(tmp_path / "deep" / "model")
        expected = model.encode(TEXTS)
        with SentenceTransformer(tmp_path / "deep" / "model", device="cpu") as saved:
            assert np.array_equal(saved.encode(TEXTS), expected)
            for setting in (
                "prompts",
                "default_prompt_name",
                "max_seq_length",
                "truncate_dim",
                "similarity_fn_name",
                "dtype",
            ):
                assert getattr(saved, setting) == getattr(model, setting)
            assert repr(saved) == repr(model)


@pytest.mark.parametrize("kind", [SentenceTransformer, VulkanSentenceTransformer])
def test_settings_are_saved_as_they_stand(prompted_model, tmp_path, kind):
    with kind(prompted_model, device="cpu", prompts={"code": "code: "}) as model:
        model.half()
        model.max_seq_length, model.truncate_dim, model.similarity_fn_name = 9, 5, "manhattan"
        model.default_prompt_name = "code"
        model.set_pooling_include_prompt(False)
        model.save(tmp_path)
        with SentenceTransformer(tmp_path, device="cpu") as saved:
            assert saved.dtype == "float16" and saved.max_seq_length == 9 and saved.truncate_dim == 5
            assert saved.similarity_fn_name == "manhattan" and saved.default_prompt_name == "code"
            assert saved.prompts == model.prompts
            assert np.array_equal(saved.encode(TEXTS), model.encode(TEXTS, normalize_embeddings=False))


def test_limits_and_types_of_older_settings_do_not_come_back(tiny_model, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(tiny_model, source)
    (source / "sentence_bert_config.json").unlink()
    old = {"max_seq_length": 40, "do_lower_case": True, "tokenizer_args": {"model_max_length": 30, "use_fast": True},
           "model_args": {"torch_dtype": "bfloat16"}}  # fmt: skip
    (source / "sentence_roberta_config.json").write_text(json.dumps(old))
    with SentenceTransformer(source, device="cpu") as model:
        assert model.max_seq_length == 30 and model.dtype == "bfloat16"
        model.max_seq_length = 20
        model.half()
        model.save_pretrained(tmp_path / "saved")
        with SentenceTransformer(tmp_path / "saved", device="cpu") as saved:
            assert saved.max_seq_length == 20 and saved.dtype == "float16"
            assert np.array_equal(saved.encode(["The CAT"]), model.encode(["The CAT"]))
    written = json.loads((tmp_path / "saved" / "sentence_bert_config.json").read_text())
    assert written["do_lower_case"] is True and written["tokenizer_args"] == {"use_fast": True}


def test_a_bare_transformer_gets_its_modules(tiny_model, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(tiny_model, source)
    (source / "modules.json").unlink()
    (source / "sentence_bert_config.json").write_text('{"max_seq_length": 5, "do_lower_case": true}')  # not looked at
    with SentenceTransformer(source, device="cpu") as model:
        model.set_pooling_include_prompt(False)
        model.save_pretrained(tmp_path / "saved")
        rows = model.encode(TEXTS, prompt="a page ")
        with SentenceTransformer(tmp_path / "saved", device="cpu") as saved:
            assert saved.max_seq_length == model.max_seq_length != 5
            assert np.array_equal(saved.encode(TEXTS, prompt="a page "), rows)
    names = [row["type"].rpartition(".")[2] for row in json.loads((tmp_path / "saved" / "modules.json").read_text())]
    assert names == ["Transformer", "Pooling"]


def test_a_bare_causal_model_keeps_its_last_token(tmp_path):
    with SentenceTransformer(families.build("llama", tmp_path), device="cpu") as model:
        model.save_pretrained(tmp_path / "saved")
        rows = model.encode(TEXTS)
    with SentenceTransformer(tmp_path / "saved", device="cpu") as saved:
        assert np.array_equal(saved.encode(TEXTS), rows)
    pooling = json.loads((tmp_path / "saved" / "1_Pooling" / "config.json").read_text())
    # The reference takes the mean where its name is missing.
    assert pooling["pooling_mode_lasttoken"] is True and pooling["pooling_mode_mean_tokens"] is False


@pytest.mark.parametrize("name", ["base", "sharded"])
def test_a_folder_may_be_saved_over_itself(checkpoint, tmp_path, name):
    folder = tmp_path / "model"
    shutil.copytree(checkpoint(name), folder)
    (folder / "notes.txt").write_text("mine")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").write_text("theirs")
    before = files(folder)
    inodes = {path.name: path.stat().st_ino for path in folder.glob("*.safetensors")}
    with SentenceTransformer(folder, device="cpu") as model:
        expected = model.encode(TEXTS)
        model.max_seq_length = 9
        model.save_pretrained(folder)
        assert np.array_equal(model.half().float().encode(["the"]), model.encode(["the"]))
    after = files(folder)
    assert set(before) <= set(after) and not list(folder.glob(".saving*"))
    changed = {path for path in before if before[path] != after[path]}
    assert all(path.endswith("config.json") or "transformers" in path or path == "modules.json" for path in changed)
    assert {path.name: path.stat().st_ino for path in folder.glob("*.safetensors")} == inodes
    with SentenceTransformer(folder, device="cpu") as model:
        assert model.max_seq_length == 9 and np.array_equal(model.encode(TEXTS[:2]), expected[:2])


def test_a_failure_leaves_what_was_there(tiny_model, tmp_path, monkeypatch):
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    before = files(folder)
    with SentenceTransformer(folder, device="cpu") as model:
        model.max_seq_length = 9

        def full(path, values):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(saving, "write_json", full)
        for target in (folder, tmp_path / "other"):
            with pytest.raises(OSError, match="No space"):
                model.save_pretrained(target)
    assert files(folder) == before and not list(folder.glob(".saving*"))


@pytest.mark.parametrize("first, second", [("base", "sharded"), ("sharded", "base")])
def test_weights_of_another_form_do_not_stay(checkpoint, tmp_path, first, second):
    for name in (first, second):
        with SentenceTransformer(checkpoint(name), device="cpu") as model:
            model.save_pretrained(tmp_path / "model")
            expected = model.encode(TEXTS)
    with SentenceTransformer(tmp_path / "model", device="cpu") as saved:
        assert np.array_equal(saved.encode(TEXTS), expected)


def test_links_of_a_cache_become_files(tiny_model, tmp_path):
    cache, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    shutil.copytree(tiny_model, cache)
    for path in [path for path in cache.rglob("*") if path.is_file()]:
        link = snapshot / path.relative_to(cache)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
    with SentenceTransformer(snapshot, device="cpu") as model:
        model.save_pretrained(tmp_path / "saved")
        model.save_pretrained(snapshot)
    shutil.rmtree(snapshot)
    shutil.rmtree(cache)
    with SentenceTransformer(tmp_path / "saved", device="cpu") as saved:
        assert saved.encode("the").shape == (32,)


def test_the_model_card(tiny_model, tmp_path):
    with SentenceTransformer(tiny_model, device="cpu") as model:
        model.save_pretrained(tmp_path / "a", "organisation/name")
        assert "# organisation/name" in (tmp_path / "a" / "README.md").read_text()
        model.save_pretrained(tmp_path / "b", create_model_card=False)
        assert not (tmp_path / "b" / "README.md").exists()
    (tmp_path / "b" / "README.md").write_text("its own")
    with SentenceTransformer(tmp_path / "b", device="cpu") as model:
        model.save_pretrained(tmp_path / "c")
        assert (tmp_path / "c" / "README.md").read_text() == "its own"
        model.save_pretrained(tmp_path / "d", None, False, [], False)
        assert not (tmp_path / "d" / "README.md").exists()
        assert (tmp_path / "d" / "model.safetensors").exists()


def test_what_is_no_folder(cpu_model, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgumentError, match="a file, expected a folder"):
        cpu_model.save_pretrained(tmp_path / "file")
    with pytest.raises(InvalidTypeError, match="path is of type int"):
        cpu_model.save_pretrained(3)
    if os.geteuid() != 0:
        (tmp_path / "closed").mkdir(mode=0o500)
        with pytest.raises(OSError):
            cpu_model.save_pretrained(tmp_path / "closed" / "model")
