"""A sentence encoder whose numbers are the same on every device: BERT, pooling and normalisation, text by text."""

import json
import math
from pathlib import Path

import numpy as np
from models import reference, safetensors_file

from . import rows
from .arithmetic import F, floats
from .attention import attention, by_heads
from .integers import Weight, linear

ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "tanh": "tanh",
}

POOLING = {
    "lasttoken": "last_token",
    "mean_sqrt_len_tokens": "mean_sqrt_length",
    "weightedmean": "weighted_mean",
}


class Bert:
    """Hidden states of one text from its token ids."""

    def __init__(self, folder: Path):
        self.config = json.loads((folder / "config.json").read_text())
        tensors = safetensors_file.read_folder(folder)
        self.tensors = {reference.canonical(name): floats(array) for name, array in tensors.items()}
        self.weights: dict[tuple[str, ...], Weight] = {}

    def linear(self, x, *names: str, **options) -> np.ndarray:
        """Weights of several names are one, of all their rows."""
        weight, bias = ([self.tensors[f"{name}.{kind}"] for name in names] for kind in ("weight", "bias"))
        if names not in self.weights:
            self.weights[names] = Weight(np.concatenate(weight))
        return linear(x, self.weights[names], np.concatenate(bias), **options)

    def norm(self, x, name: str) -> np.ndarray:
        eps = self.config.get("layer_norm_eps", 1e-12)
        return rows.layer_norm(x, self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"], eps)

    def attention(self, x, prefix: str) -> np.ndarray:
        heads = self.config["num_attention_heads"]
        names = (f"{prefix}.self.{name}" for name in ("query", "key", "value"))
        q, k, v = (by_heads(part, heads) for part in np.split(self.linear(x, *names), 3, axis=1))
        y = attention(q, k, v, F(1 / math.sqrt(q.shape[-1])))
        return self.linear(y.swapaxes(0, 1).reshape(x.shape), f"{prefix}.output.dense", residual=x)

    def __call__(self, ids) -> np.ndarray:
        tables = [self.tensors[f"embeddings.{name}_embeddings.weight"] for name in ("word", "token_type", "position")]
        x = rows.embedding_sum(tables, [ids, np.zeros(len(ids), int), np.arange(len(ids))])
        x = self.norm(x, "embeddings.LayerNorm")
        for layer in range(self.config["num_hidden_layers"]):
            prefix = f"encoder.layer.{layer}"
            x = self.norm(self.attention(x, f"{prefix}.attention"), f"{prefix}.attention.output.LayerNorm")
            activation = ACTIVATIONS[self.config["hidden_act"]]
            inner = self.linear(x, f"{prefix}.intermediate.dense", activation=activation)
            x = self.norm(self.linear(inner, f"{prefix}.output.dense", residual=x), f"{prefix}.output.LayerNorm")
        return x


class Model:
    """The chain of a checkpoint's modules.json (a lone BERT gets mean pooling)."""

    def __init__(self, folder: Path):
        self.bert = Bert(Path(folder))
        listing = Path(folder) / "modules.json"
        listed = json.loads(listing.read_text())[1:] if listing.exists() else []
        self.modules = [self.load(Path(folder) / row["path"], row["type"]) for row in listed]

    def load(self, place: Path, kind: str) -> tuple[str, dict, dict]:
        config, weights = place / "config.json", place / "model.safetensors"
        tensors = safetensors_file.read(weights) if weights.exists() else {}
        return kind.rsplit(".", 1)[-1], json.loads(config.read_text()) if config.exists() else {}, tensors

    def embed(self, ids, unit: bool = False) -> np.ndarray:
        """The embedding of one text; with `unit` divided by its length, whatever the modules are."""
        x = self.bert(np.asarray(ids))
        for kind, config, tensors in self.modules or [("Pooling", {}, {})]:
            if kind == "Pooling":
                x = np.concatenate([rows.pool(POOLING.get(mode, mode), x) for mode in reference.pooling_modes(config)])
            elif kind == "Dense":
                x = self.dense(x, config, tensors)
            elif kind == "LayerNorm":
                x = rows.layer_norm(x, tensors["norm.weight"], tensors["norm.bias"], 1e-5)
            elif kind == "Normalize":
                x = rows.normalize(x, 1e-12)
            elif kind != "Dropout":
                raise ValueError(kind)
        return rows.normalize(x, 1e-12) if unit else x

    def dense(self, x, config: dict, tensors: dict) -> np.ndarray:
        residual = None
        if config.get("use_residual"):
            residual = linear(x, tensors["residual.weight"]) if "residual.weight" in tensors else x
        name = config["activation_function"].rsplit(".", 1)[-1].lower()
        activation = None if name == "identity" else ACTIVATIONS[name]
        return linear(x, tensors["linear.weight"], tensors.get("linear.bias"), activation, residual)
