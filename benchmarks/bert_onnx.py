"""A BERT as an ONNX graph in onnxruntime's own fused operators: what its transformer optimiser makes of an export."""

import hashlib
import json
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save
from safetensors.numpy import load_file

FUSED = "com.microsoft"


class Graph:
    """Nodes and weights, collected by name."""

    def __init__(self, tensors: dict[str, np.ndarray]):
        self.tensors = tensors
        self.nodes: list = []
        self.weights: list = []

    def weight(self, name: str, array: np.ndarray | None = None) -> str:
        array = self.tensors[name] if array is None else array
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def op(self, kind: str, inputs: list[str], output: str, domain: str = "", **attributes) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def linear(self, x: str, name: str) -> str:
        """x W^T, without the bias."""
        weight = self.weight(f"{name}.transposed", self.tensors[f"{name}.weight"].T)
        return self.op("MatMul", [x, weight], f"{name}.product")

    def norm(self, x: str, residual: str, bias: str, name: str, eps: float) -> str:
        """LayerNorm(x + residual + bias)."""
        inputs = [x, residual, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"), self.weight(bias)]
        return self.op("SkipLayerNormalization", inputs, f"{name}.output", FUSED, epsilon=eps)


def fingerprint(folder: Path) -> str:
    """A name for the graph of these weights, written by this file."""
    parts = (folder / "config.json", folder / "model.safetensors", Path(__file__))
    return hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()[:16]


def write(folder: Path, path: Path) -> None:
    """(input_ids, attention_mask) of shape (batch, tokens) -> last_hidden_state, float32."""
    config = json.loads((folder / "config.json").read_text())
    eps = config["layer_norm_eps"]
    graph = Graph(load_file(folder / "model.safetensors"))
    names = [f"embeddings.{part}_embeddings.weight" for part in ("word", "position", "token_type")]
    mask = graph.op("Cast", ["attention_mask"], "mask", to=TensorProto.INT32)
    ids = graph.op("Cast", ["input_ids"], "ids", to=TensorProto.INT32)
    types = graph.op("Sub", [ids, ids], "types")
    norm = [graph.weight(f"embeddings.LayerNorm.{part}") for part in ("weight", "bias")]
    word, position, kind = (graph.weight(name) for name in names)
    inputs = [ids, types, word, position, kind, *norm, mask]
    node = helper.make_node("EmbedLayerNormalization", inputs, ["embedded", "mask_index"], domain=FUSED, epsilon=eps)
    graph.nodes.append(node)
    x = "embedded"
    for layer in range(config["num_hidden_layers"]):
        prefix = f"encoder.layer.{layer}"
        parts = [f"{prefix}.attention.self.{part}" for part in ("query", "key", "value")]
        packed = graph.weight(
            f"{prefix}.packed.weight", np.concatenate([graph.tensors[f"{part}.weight"].T for part in parts], axis=1)
        )
        bias = graph.weight(f"{prefix}.packed.bias", np.concatenate([graph.tensors[f"{part}.bias"] for part in parts]))
        heads = config["num_attention_heads"]
        mixed = graph.op("Attention", [x, packed, bias, mask], f"{prefix}.mixed", FUSED, num_heads=heads)
        name = f"{prefix}.attention.output"
        x = graph.norm(graph.linear(mixed, f"{name}.dense"), x, f"{name}.dense.bias", f"{name}.LayerNorm", eps)
        name = f"{prefix}.intermediate.dense"
        inner = graph.linear(x, name)
        inner = graph.op("BiasGelu", [inner, graph.weight(f"{name}.bias")], f"{prefix}.inner", FUSED)
        name = f"{prefix}.output"
        x = graph.norm(graph.linear(inner, f"{name}.dense"), x, f"{name}.dense.bias", f"{name}.LayerNorm", eps)
    graph.op("Identity", [x], "last_hidden_state")
    shape = ["batch", "tokens"]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "bert",
            [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("input_ids", "attention_mask")],
            [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*shape, config["hidden_size"]])],
            graph.weights,
        ),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(FUSED, 1)],
        ir_version=9,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    save(model, path)
