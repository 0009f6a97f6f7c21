"""Small checkpoints in the real on-disk format, each one change away from `fixtures/tiny-bert`, written by NumPy.

Random numbers come from `numpy.random.RandomState`, whose streams never change between NumPy versions.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from . import safetensors_file

BASE = Path(__file__).parent.parent / "fixtures" / "tiny-bert"
ACTIVATION_PATHS = {
    "Tanh": "torch.nn.modules.activation.Tanh",
    "Identity": "torch.nn.modules.linear.Identity",
    "ReLU": "torch.nn.modules.activation.ReLU",
    "GELU": "torch.nn.modules.activation.GELU",
    "SiLU": "torch.nn.modules.activation.SiLU",
}


@dataclass
class Checkpoint:
    """What a model folder holds; a variant changes some of it and writes it."""

    config: dict  # config.json
    tensors: dict[str, np.ndarray]
    transformer: dict | None = field(default_factory=lambda: {"max_seq_length": 48, "do_lower_case": False})
    modules: list[tuple[str, dict, dict]] | None = None  # (type, config, tensors) after the Transformer
    settings: dict = field(default_factory=dict)  # config_sentence_transformers.json
    normalizer: dict = field(default_factory=dict)  # changes to the normalizer of tokenizer.json
    tokenizer_limit: int = 512  # model_max_length of tokenizer_config.json
    storage: str = "F32"
    shards: int = 1

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.write_tokenizer(folder)
        write_json(folder / "config.json", self.config)
        if self.transformer is not None:
            write_json(folder / "sentence_bert_config.json", self.transformer)
        if self.settings:
            write_json(folder / "config_sentence_transformers.json", self.settings)
        if self.shards > 1:
            safetensors_file.write_sharded(folder, self.tensors, self.shards)
        else:
            safetensors_file.write(folder / "model.safetensors", self.tensors, self.storage)
        if self.modules is not None:
            self.write_modules(folder)

    def write_tokenizer(self, folder: Path) -> None:
        tokenizer = json.loads((BASE / "tokenizer.json").read_text(encoding="utf-8"))
        tokenizer["normalizer"] |= self.normalizer
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
        config = json.loads((BASE / "tokenizer_config.json").read_text())
        config |= {"model_max_length": self.tokenizer_limit, "do_lower_case": tokenizer["normalizer"]["lowercase"]}
        write_json(folder / "tokenizer_config.json", config)

    def write_modules(self, folder: Path) -> None:
        rows = [("", "Transformer")]
        for number, (kind, config, tensors) in enumerate(self.modules or [], start=1):
            place = folder / f"{number}_{kind}"
            rows.append((place.name, kind))
            if config or tensors:
                place.mkdir()
                write_json(place / "config.json", config)
            if tensors:
                safetensors_file.write(place / "model.safetensors", tensors)
        listing = [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate(rows)
        ]
        write_json(folder / "modules.json", listing)


def write_json(path: Path, value) -> None:
    path.write_text(json.dumps(value, indent=2))


def random_bert(config: dict, seed: int) -> dict[str, np.ndarray]:
    """Weights of a size that makes every part of the network matter."""
    random = np.random.RandomState(seed)
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    tensors = {}

    def normal(shape, scale, mean=0.0):
        return (mean + scale * random.standard_normal(shape)).astype(np.float32)

    def norm(name):
        tensors[f"{name}.weight"] = normal(hidden, 0.2, mean=1.0)
        tensors[f"{name}.bias"] = normal(hidden, 0.2)

    def linear(name, outputs, inputs):
        tensors[f"{name}.weight"] = normal((outputs, inputs), 1.2 / np.sqrt(inputs))
        tensors[f"{name}.bias"] = normal(outputs, 0.1)

    tensors["embeddings.word_embeddings.weight"] = normal((config["vocab_size"], hidden), 0.5)
    tensors["embeddings.position_embeddings.weight"] = normal((config["max_position_embeddings"], hidden), 0.2)
    tensors["embeddings.token_type_embeddings.weight"] = normal((config["type_vocab_size"], hidden), 0.2)
    norm("embeddings.LayerNorm")
    for layer in range(config["num_hidden_layers"]):
        prefix = f"encoder.layer.{layer}"
        for name in ("query", "key", "value"):
            linear(f"{prefix}.attention.self.{name}", hidden, hidden)
        linear(f"{prefix}.attention.output.dense", hidden, hidden)
        norm(f"{prefix}.attention.output.LayerNorm")
        linear(f"{prefix}.intermediate.dense", inner, hidden)
        linear(f"{prefix}.output.dense", hidden, inner)
        norm(f"{prefix}.output.LayerNorm")
    return tensors


def base() -> Checkpoint:
    config = json.loads((BASE / "config.json").read_text())
    return Checkpoint(config, safetensors_file.read(BASE / "model.safetensors"), modules=[pooling("mean")])


def sized(seed: int, **changes) -> Checkpoint:
    """The base with another shape, so with fresh weights and mean pooling of the right width."""
    checkpoint = base()
    checkpoint.config |= changes
    checkpoint.tensors = random_bert(checkpoint.config, seed)
    checkpoint.modules = [pooling("mean", width=checkpoint.config["hidden_size"])]
    return checkpoint


def pooling(mode, width: int = 32, **more) -> tuple[str, dict, dict]:
    return ("Pooling", {"embedding_dimension": width, "pooling_mode": mode} | more, {})


def dense(
    activation: str, inputs: int, outputs: int, seed: int, bias: bool = True, residual: bool = False, **more
) -> tuple[str, dict, dict]:
    random = np.random.RandomState(seed)
    config = {"in_features": inputs, "out_features": outputs, "bias": bias} | more
    config["activation_function"] = ACTIVATION_PATHS[activation]
    scale = 1.2 / np.sqrt(inputs)
    tensors = {"linear.weight": (scale * random.standard_normal((outputs, inputs))).astype(np.float32)}
    if bias:
        tensors["linear.bias"] = (0.1 * random.standard_normal(outputs)).astype(np.float32)
    if residual:
        config["use_residual"] = True
        if inputs != outputs:
            tensors["residual.weight"] = (scale * random.standard_normal((outputs, inputs))).astype(np.float32)
    return ("Dense", config, tensors)


def layer_norm_module(width: int, seed: int) -> tuple[str, dict, dict]:
    random = np.random.RandomState(seed)
    tensors = {
        "norm.weight": (1 + 0.2 * random.standard_normal(width)).astype(np.float32),
        "norm.bias": (0.2 * random.standard_normal(width)).astype(np.float32),
    }
    return ("LayerNorm", {"dimension": width}, tensors)


def weighted_layers(start: int, layers: int, seed: int) -> tuple[str, dict, dict]:
    weights = np.random.RandomState(seed).uniform(0.1, 2.0, layers + 1 - start).astype(np.float32)
    config = {"embedding_dimension": 32, "num_hidden_layers": layers, "layer_start": start}
    return ("WeightedLayerPooling", config, {"layer_weights": weights})


Recipe = Callable[[], Checkpoint]
VARIANTS: dict[str, Recipe] = {}
CALLS: dict[str, dict[str, dict]] = {}  # variant -> label -> arguments of encode (or of the `method` named)


def variant(name: str, recipe: Recipe, calls: dict[str, dict] | None = None) -> None:
    VARIANTS[name] = recipe
    CALLS[name] = calls or {"plain": {}}


def call(model, texts: list[str], arguments: dict, **more):
    """One of CALLS, on any model with sentence-transformers' methods."""
    arguments = arguments | more
    return getattr(model, arguments.pop("method", "encode"))(texts, **arguments)


def build(name: str, folder: Path) -> Path:
    """Writes one variant into `folder/name` and returns that path."""
    VARIANTS[name]().write(folder / name)
    return folder / name
