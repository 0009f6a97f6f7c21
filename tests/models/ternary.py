"""Tiny ternary checkpoints in the published formats, and their hidden states in NumPy, text by text.

Of BitNet b1.58 the matrices are packed (uint8, a quarter of the rows in each pair of bits) and have a scale, which
divides or multiplies, or are numbers that are rounded when they are read. Of the embedding models they are numbers, in
bfloat16 beside the norm that each product has of its own, of a configuration that says nothing of either.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from . import families, safetensors_file
from .family_reference import Llama, heads_of, rms_norm
from .reference import ACTIVATIONS
from .variants import write_json

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "gate_proj", "down_proj")
PACKED = {"quant_method": "bitnet", "linear_class": "bitlinear", "quantization_mode": "offline"}
OFFLINE = PACKED | {"linear_class": "autobitlinear"}
ONLINE = OFFLINE | {"quantization_mode": "online"}
# Odd: neither tiles nor quads divide them.
BITNET = {
    **{"architectures": ["BitNetForCausalLM"], "model_type": "bitnet", "hidden_act": "relu2", "vocab_size": 600},
    **{"hidden_size": 60, "num_attention_heads": 5, "num_key_value_heads": 1, "intermediate_size": 100},
    **{"num_hidden_layers": 2, "max_position_embeddings": 160, "rms_norm_eps": 1e-5, "dtype": "bfloat16"},
    **{"attention_bias": False, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
}
MATRIX = {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 192}
# The table's checkpoints with norms of products, or the keys of BitNet's config.json.
ROWS: dict[str, str | dict] = {
    "qwen3": "qwen3",
    "qwen3-matrix": "qwen3-matrix",
    "gemma3_text": "gemma3_text",
    "gemma3_text-matrix": "gemma3_text-matrix",
    "bitnet": {"quantization_config": OFFLINE},
    "bitnet-matrix": MATRIX | {"quantization_config": PACKED},
    "bitnet-online": {"quantization_config": ONLINE},
    "bitnet-floats": {},
}


def pack(values: np.ndarray) -> np.ndarray:
    """Ternary values as transformers packs them."""
    quarters = (values + 1).astype(np.uint8).reshape(4, -1, values.shape[1])
    return quarters[0] | quarters[1] << 2 | quarters[2] << 4 | quarters[3] << 6


def unpack(packed: np.ndarray) -> np.ndarray:
    return np.concatenate([(packed >> shift & 3).astype(np.int64) - 1 for shift in (0, 2, 4, 6)])


def rounded(matrix: np.ndarray) -> tuple[np.ndarray, np.float32]:
    """Ternary values of float32 numbers, and what divides them: one over the mean magnitude, at least 1e-5."""
    scale = np.float32(1 / max(np.abs(matrix.astype(np.float64)).mean(), 1e-5))
    return np.clip(np.rint(matrix.astype(np.float32) * scale), -1, 1).astype(np.int64), scale


def bitnet_tensors(config: dict) -> dict[str, np.ndarray]:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    keys = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    shapes = {"model.embed_tokens.weight": [config["vocab_size"], hidden], "model.norm.weight": [hidden]}
    for layer in range(config["num_hidden_layers"]):
        of_layer = {
            **{"input_layernorm": [hidden], "post_attention_layernorm": [hidden], "self_attn.attn_sub_norm": [hidden]},
            **{"self_attn.q_proj": [hidden, hidden], "self_attn.k_proj": [keys, hidden]},
            **{"self_attn.v_proj": [keys, hidden], "self_attn.o_proj": [hidden, hidden]},
            **{"mlp.gate_proj": [inner, hidden], "mlp.up_proj": [inner, hidden], "mlp.down_proj": [hidden, inner]},
            "mlp.ffn_sub_norm": [inner],
        }
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in of_layer.items()}
    return {name: families.draw(name, shape) for name, shape in shapes.items()}


def packed(tensors: dict[str, np.ndarray], multiplies: bool) -> dict[str, np.ndarray]:
    """The matrices of the products packed, each with its scale."""
    found = {}
    for name, array in tensors.items():
        if not name.endswith("_proj.weight"):
            found[name] = array
            continue
        values, scale = rounded(array)
        found[name] = pack(values)
        found[f"{name}_scale"] = np.array([1 / scale if multiplies else scale], np.float32)
    return found


def build(name: str, folder: Path) -> Path:
    """Writes the checkpoint `name` into `folder/name` and returns that path."""
    row, folder = ROWS[name], folder / name
    if isinstance(row, str):
        return build_embedding(row, folder)
    config = BITNET | row
    families.write_tokenizer("gpt2", folder)
    write_json(folder / "config.json", config)
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "TokenizersBackend", "model_max_length": 40})
    tensors = bitnet_tensors(config)
    if config.get("quantization_config", ONLINE)["quantization_mode"] == "offline":
        tensors = packed(tensors, config["quantization_config"]["linear_class"] == "autobitlinear")
    safetensors_file.write(folder / "model.safetensors", tensors, "BF16")
    return folder


def norms_of_products(tensors: dict[str, list[int]]) -> dict[str, list[int]]:
    """Names and shapes of the norms that make a Qwen3 or Gemma 3 a ternary embedding model."""
    products = {name: shape for name, shape in tensors.items() if name.endswith("_proj.weight")}
    return {name.replace("_proj.weight", "_proj.norm.weight"): shape[1:] for name, shape in products.items()}


def build_embedding(name: str, folder: Path) -> Path:
    fixture = families.table()[name]
    files = {name: content for name, content in fixture["files"].items() if "Dense" not in name}
    config = files["config.json"] | {"dtype": "bfloat16", "use_bidirectional_attention": False}
    if fixture["files"]["config.json"]["model_type"] == "qwen3":
        del config["use_bidirectional_attention"]
    kinds = ("Transformer", "Pooling", "Normalize")
    files["modules.json"] = [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" * (i > 0), "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    files["1_Pooling/config.json"] = {"embedding_dimension": config["hidden_size"], "pooling_mode": "lasttoken"}
    tensors = fixture["tensors"] | norms_of_products(fixture["tensors"])
    files["config.json"] = config
    row = {"tokenizer": fixture["tokenizer"], "files": files, "tensors": tensors, "stored": "BF16"}
    return families.write(row, folder)


class Ternary(Llama):
    """Hidden states of a text: free, or with the integers of an engine's numbers, which are compared on the way."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.stored = {name.removeprefix("model."): own for name, own in safetensors_file.read_folder(folder).items()}
        self.gemma = self.config["model_type"] == "gemma3_text"
        self.given: Iterator[dict[str, np.ndarray]] | None = None
        self.errors: list[float] = []

    def matrix(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Values of a matrix, and what divides each row."""
        own = self.stored[f"{name}.weight"]
        if own.dtype != np.uint8:
            values, scale = rounded(own)
        else:
            values, scale = unpack(own), np.float64(self.stored[f"{name}.weight_scale"][0])
            if self.config["quantization_config"]["linear_class"] == "autobitlinear":
                scale = 1 / scale
        return values, np.full(len(values), scale, np.float64)

    def compare(self, found: np.ndarray, expected: np.ndarray) -> None:
        self.errors.append(float(np.abs(found - expected).max() / np.abs(expected).max()))

    def products(self, x: np.ndarray, names: list[str], norm: str | None = None, then=lambda y: y) -> np.ndarray:
        """Of rows with ternary matrices, stacked; the rows are normalised first if there is a norm."""
        if norm is None and f"{names[0]}.norm.weight" in self.tensors:
            norm = f"{names[0]}.norm"
        if norm is not None:
            x = rms_norm(x, self.tensors[f"{norm}.weight"], self.config["rms_norm_eps"])
        if "quantization_config" not in self.config and self.config["model_type"] == "bitnet":
            return then(np.concatenate([self.linear(x, name) for name in names], axis=1))
        given = None if self.given is None else next(self.given)
        if given is not None:
            self.compare(given["x"], x)
            x = given["x"]
        scale = x.dtype.type(127) / np.maximum(np.abs(x).max(axis=1, keepdims=True), x.dtype.type(1e-5))
        q = np.clip(np.rint(x * scale), -128, 127).astype(np.int64)
        matrices = [self.matrix(name) for name in names]
        values, divisors = (np.concatenate(part) for part in zip(*matrices, strict=True))
        y = q @ values.T / divisors / scale.astype(np.float64)
        if f"{names[0]}.bias" in self.tensors:
            y = y + np.concatenate([self.tensors[f"{name}.bias"] for name in names])
        y = then(y)
        if given is not None:
            assert (given["matrix"] == values).all()
            self.compare(given["y"], y + given.get("residual", 0))
        return y

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        return rms_norm(x, self.tensors[f"{name}.weight"] + self.gemma, self.config["rms_norm_eps"])

    def speeds(self, layer: int, columns: int) -> np.ndarray:
        """Turns per position of each pair of columns."""
        rope = self.config["rope_parameters"]
        rope = rope[self.config["layer_types"][layer]] if self.gemma else rope
        assert rope["rope_type"] in ("default", "linear")
        return rope["rope_theta"] ** (-np.arange(0, columns, 2) / columns) / rope.get("factor", 1.0)

    def attention(self, x: np.ndarray, layer: int, own: str) -> np.ndarray:
        config, hidden = self.config, self.config["hidden_size"]
        heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
        columns = config.get("head_dim") or hidden // heads
        names = [f"{own}self_attn.{part}_proj" for part in "qkv"]
        if config["model_type"] == "bitnet":
            sizes = np.cumsum([heads * columns, groups * columns])
            parts = np.split(self.products(x, names), sizes, axis=1)
        else:
            parts = [self.products(x, [name]) for name in names]
        q, k, v = (heads_of(part, count) for part, count in zip(parts, (heads, groups, groups), strict=True))
        if config["model_type"] != "bitnet":
            q, k = (self.norm(x, f"{own}self_attn.{part}_norm") for x, part in ((q, "q"), (k, "k")))
        q, k = (self.turn(x, self.speeds(layer, columns)) for x in (q, k))
        scores = q / math.sqrt(config.get("query_pre_attn_scalar") or columns)
        kinds = config.get("layer_types", ["full_attention"] * (layer + 1))
        window = config["sliding_window"] if kinds[layer] == "sliding_attention" else 0
        tokens = np.arange(len(x))
        far = tokens[:, None] - tokens >= window if window else np.zeros((len(x), len(x)), bool)
        return self.mixed(scores, k, v, bias=np.where(far, -1e30, 0.0), causal=True)

    @staticmethod
    def turn(x: np.ndarray, speeds: np.ndarray) -> np.ndarray:
        angles = np.arange(x.shape[1])[:, None] * speeds
        first, second = np.split(x, 2, axis=-1)
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    def __call__(self, ids, given: list[dict[str, np.ndarray]] | None = None) -> np.ndarray:
        self.given = None if given is None else iter(given)
        config, bitnet = self.config, self.config["model_type"] == "bitnet"
        x = self.tensors["embed_tokens.weight"][ids]
        if self.gemma:
            x = x * float(np.float32(math.sqrt(config["hidden_size"])))
        activation = config.get("hidden_activation", config.get("hidden_act"))
        for layer in range(config["num_hidden_layers"]):
            own = f"layers.{layer}."
            mixed = self.attention(self.norm(x, f"{own}input_layernorm"), layer, own)
            norm = f"{own}self_attn.attn_sub_norm" if bitnet else None
            y = self.products(mixed, [f"{own}self_attn.o_proj"], norm)
            x = x + (self.norm(y, f"{own}post_attention_layernorm") if self.gemma else y)
            before = "pre_feedforward_layernorm" if self.gemma else "post_attention_layernorm"
            read = self.norm(x, own + before)
            up = self.products(read, [f"{own}mlp.up_proj"])
            gate = self.products(read, [f"{own}mlp.gate_proj"], then=ACTIVATIONS["relu" if bitnet else activation])
            gate = gate**2 if bitnet else gate
            norm = f"{own}mlp.ffn_sub_norm" if bitnet else None
            y = self.products(up * gate, [f"{own}mlp.down_proj"], norm)
            x = x + (self.norm(y, f"{own}post_feedforward_layernorm") if self.gemma else y)
        assert self.given is None or next(self.given, None) is None, "all products are compared"
        return self.norm(x, "norm")
