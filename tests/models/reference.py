"""An independent sentence encoder in float64 NumPy: BERT, pooling and the modules after it, text by text."""

import json
import math
from pathlib import Path

import numpy as np

from . import safetensors_file

erf = np.vectorize(math.erf, otypes=[float])


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = {
    "gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "identity": lambda x: x,
}


def softmax(x):
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


def layer_norm(x, weight, bias, eps):
    x = x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight + bias


def canonical(name: str) -> str:
    """The name a tensor has in today's files."""
    name = name.removeprefix("bert.")
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


class Bert:
    """Hidden states of one text from its token ids."""

    def __init__(self, folder: Path):
        self.config = json.loads((folder / "config.json").read_text())
        tensors = safetensors_file.read_folder(folder)
        self.tensors = {canonical(name): array.astype(np.float64) for name, array in tensors.items()}

    def linear(self, x, name):
        return x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]

    def norm(self, x, name):
        eps = self.config.get("layer_norm_eps", 1e-12)
        return layer_norm(x, self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"], eps)

    def attention(self, x, prefix):
        tokens, hidden = x.shape
        heads = self.config["num_attention_heads"]

        def split(name):  # (tokens, hidden) -> (heads, tokens, head size)
            return self.linear(x, f"{prefix}.self.{name}").reshape(tokens, heads, -1).swapaxes(0, 1)

        query, key, value = split("query"), split("key"), split("value")
        weights = softmax(query @ key.swapaxes(1, 2) / math.sqrt(hidden // heads))
        return self.linear((weights @ value).swapaxes(0, 1).reshape(tokens, hidden), f"{prefix}.output.dense")

    def __call__(self, ids) -> np.ndarray:
        return self.states(ids)[-1]

    def states(self, ids) -> list[np.ndarray]:
        """The embeddings and the results of the layers."""
        embeddings = "embeddings"
        x = self.tensors[f"{embeddings}.word_embeddings.weight"][ids]
        x = x + self.tensors[f"{embeddings}.position_embeddings.weight"][: len(ids)]
        x = x + self.tensors[f"{embeddings}.token_type_embeddings.weight"][0]
        states = [x := self.norm(x, f"{embeddings}.LayerNorm")]
        activation = ACTIVATIONS[self.config["hidden_act"]]
        for layer in range(self.config["num_hidden_layers"]):
            prefix = f"encoder.layer.{layer}"
            x = self.norm(x + self.attention(x, f"{prefix}.attention"), f"{prefix}.attention.output.LayerNorm")
            inner = activation(self.linear(x, f"{prefix}.intermediate.dense"))
            x = self.norm(x + self.linear(inner, f"{prefix}.output.dense"), f"{prefix}.output.LayerNorm")
            states.append(x)
        return states


def pool(mode: str, x: np.ndarray, skip: int) -> np.ndarray:
    """One vector from hidden states (tokens, hidden); the first `skip` tokens (a prompt) do not count."""
    kept = x[skip:]
    if mode == "cls":
        return kept[0]
    if mode == "lasttoken":
        return kept[-1]
    if mode == "max":
        return kept.max(axis=0)
    if mode == "mean":
        return kept.mean(axis=0)
    if mode == "mean_sqrt_len_tokens":
        return kept.sum(axis=0) / math.sqrt(len(kept))
    if mode == "weightedmean":
        weights = np.arange(1, len(x) + 1)[skip:, None]
        return (kept * weights).sum(axis=0) / weights.sum()
    raise ValueError(mode)


OLD_POOLING = {  # in the order in which several are concatenated
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


def pooling_modes(config: dict) -> list[str]:
    modes = config.get("pooling_mode") or [mode for key, mode in OLD_POOLING.items() if config.get(key)]
    return [modes] if isinstance(modes, str) else modes or ["mean"]


class Model:
    """The whole chain of a checkpoint's modules.json (a lone BERT gets mean pooling)."""

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        self.bert = Bert(self.folder)
        listing = self.folder / "modules.json"
        rows = json.loads(listing.read_text())[1:] if listing.exists() else []
        self.modules = [self.load(row) for row in rows] or [("Pooling", {}, {})]

    def load(self, row: dict):
        place = self.folder / row["path"]
        config, weights = place / "config.json", place / "model.safetensors"
        tensors = safetensors_file.read(weights) if weights.exists() else {}
        return (
            row["type"].rsplit(".", 1)[-1],
            json.loads(config.read_text()) if config.exists() else {},
            {name: array.astype(np.float64) for name, array in tensors.items()},
        )

    def embed(self, ids, prompt_length: int = 0) -> np.ndarray:
        """The embedding of one text, not normalised unless a module says so; `prompt_length` counts tokens."""
        states = self.bert.states(np.asarray(ids))
        x = states[-1]
        for kind, config, tensors in self.modules:
            if kind == "Pooling":
                skip = 0 if config.get("include_prompt", True) else prompt_length
                x = np.concatenate([pool(mode, x, skip) for mode in pooling_modes(config)])
            elif kind == "WeightedLayerPooling":
                if self.bert.config.get("output_hidden_states"):
                    weights = tensors["layer_weights"]
                    weighted = zip(weights, states[config["layer_start"] :], strict=True)
                    x = sum(weight * state for weight, state in weighted) / weights.sum()
            elif kind == "Dense":
                name = config.get("activation_function", "torch.nn.modules.activation.Tanh").rsplit(".", 1)[-1]
                out = x @ tensors["linear.weight"].T + tensors.get("linear.bias", 0)
                residual = x @ tensors["residual.weight"].T if "residual.weight" in tensors else x
                out = ACTIVATIONS[name.lower()](out)
                x = out + residual if config.get("use_residual") else out
            elif kind == "LayerNorm":
                x = layer_norm(x, tensors["norm.weight"], tensors["norm.bias"], 1e-5)
            elif kind == "Normalize":
                x = x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)
            elif kind != "Dropout":
                raise ValueError(kind)
        return x
