"""Model folders with one setting changed: the walk over `fixtures/settings.json`.

The list has every key that sentence-transformers 6.2 and transformers' tokenizers read of a text model's files and of
keyword arguments: by file, `[effect, folder, another value]`. `honoured` changes the results as theirs, `nothing` none
in either, and `refused` is an error that names the key. After `#` stands what the file is of; the file
`SentenceTransformer()` is the constructor.
"""

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from . import families, heads, routers, safetensors_file
from .spoil import change_json
from .variants import BASE

LIST = families.FIXTURES / "settings.json"
CONSTRUCTOR = "SentenceTransformer()"
# The first has 51 tokens of BERT's, whose limit is 48, of 64 positions.
TEXTS = (
    "The Quick brown fox, one two three four five six seven, a dog and a cat; the rain and the other dog. "
    "The Quick brown fox, one two three four five six seven, a dog",
    "a [MASK] dog", "Été 東京 zzz", "on one",
)  # fmt: skip


def rows() -> list[tuple[str, str, str, str, Any]]:
    """`(file, key, effect, folder, value)` of every setting."""
    table = json.loads(LIST.read_text(encoding="utf-8"))
    return [(file, key, *row) for file, keys in table.items() for key, row in keys.items()]


def build(name: str, folder: Path) -> Path:
    """A folder to change."""
    if name in ("bert", "older", "dense"):
        shutil.copytree(BASE, folder)
    elif name in ("cross-bare", "cross", "sparse"):
        task, fixture = ("words", "bert-sum") if name == "sparse" else ("scores", "bert")
        shutil.move(heads.build(task, fixture, folder.parent / "made"), folder)
    elif name == "router":
        shutil.move(routers.build("table-and-encoder", folder.parent / "made"), folder)
    else:
        shutil.move(families.build(name, folder.parent / "made"), folder)
    if name == "older":
        write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True})
        change_json(folder / "tokenizer_config.json", model_max_length=...)
    if name == "dense":
        add_modules(folder)
    if name == "cross":
        first = {
            "idx": 0,
            "name": "0",
            "path": "",
            "type": "sentence_transformers.base.modules.transformer.Transformer",
        }
        write(folder / "modules.json", [first])
        write(folder / "config_sentence_transformers.json", {"model_type": "CrossEncoder"})
        text = {"text": {"method": "forward", "method_output_name": "logits"}}
        task = {"transformer_task": "sequence-classification", "modality_config": text, "module_output_name": "scores"}
        write(folder / "sentence_bert_config.json", task)
    return folder


def add_modules(folder: Path) -> None:
    """Adds a Dense, a LayerNorm, a Normalize and a Dropout."""
    rows = json.loads((folder / "modules.json").read_text())
    kinds = {
        "Dense": {"in_features": 32, "out_features": 8, "bias": True, "module_input_name": "sentence_embedding",
                  "activation_function": "torch.nn.modules.activation.Tanh"},
        "LayerNorm": {"dimension": 8}, "Normalize": {}, "Dropout": {"dropout": 0.1},
    }  # fmt: skip
    for place, (kind, config) in enumerate(kinds.items(), 2):
        path = f"{place}_{kind}"
        write(folder / path / "config.json", config)
        rows.append({"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"})
    draw = np.random.RandomState(7).standard_normal
    dense = {"linear.weight": draw((8, 32)), "linear.bias": draw(8)}
    safetensors_file.write(
        folder / "2_Dense" / "model.safetensors", {k: v.astype(np.float32) for k, v in dense.items()}
    )
    norm = {"norm.weight": np.ones(8, np.float32), "norm.bias": np.zeros(8, np.float32)}
    safetensors_file.write(folder / "3_LayerNorm" / "model.safetensors", norm)
    write(folder / "modules.json", rows)


def write(path: Path, values: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(values if isinstance(values, str) else json.dumps(values), encoding="utf-8")


def change(folder: Path, file: str, key: str, value: Any) -> dict[str, Any]:
    """Sets one key of one file; the arguments of the constructor."""
    file = file.partition("#")[0]
    if not key:
        write(folder / file, value)
        return {}
    path = folder / file
    values: Any = {} if file == CONSTRUCTOR or not path.exists() else json.loads(path.read_text(encoding="utf-8"))
    *outer, last = key.split("/")
    inner = values
    for part in outer:
        inner = inner[int(part)] if isinstance(inner, list) else inner.setdefault(part, {})
    inner[last] = value
    if file == CONSTRUCTOR:
        return values
    write(path, values)
    return {}


def before(of: Callable[[str], Any], place: Path) -> Callable[[str], Any]:
    """`before(of, place)(name)`: the results of a folder as it is, built in `place` and computed once."""

    @cache
    def known(name: str) -> Any:
        return results(of, name, build(name, place / name / "model"), {})

    return known


def results(classes: Callable[[str], Any], name: str, folder: Path, arguments: dict[str, Any]) -> list[np.ndarray]:
    """What a model gives for each text alone, and its settings as numbers."""
    kind = {"cross": "CrossEncoder", "cross-bare": "CrossEncoder", "sparse": "SparseEncoder"}.get(name)
    kind = kind or "SentenceTransformer"
    model = classes(kind)(str(folder), device="cpu", **arguments)
    if kind == "CrossEncoder":
        prompt = next(iter(model.prompts.values()), None)
        return [np.atleast_1d(model.predict([(text, "a dog")], prompt=prompt)[0]) for text in TEXTS]
    similarity = list(model.SUPPORTED_SIMILARITY_FN_NAMES).index(model.similarity_fn_name)
    stated = np.array([similarity, len(model.prompts.get("query", ""))], dtype=np.float32)
    options = {"convert_to_sparse_tensor": False} if kind == "SparseEncoder" else {}
    return [stated, *(np.asarray(model.encode(text, **options)) for text in TEXTS)]
