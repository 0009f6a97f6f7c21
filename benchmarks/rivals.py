"""The engines measured beside grilly, each with one method: texts in, normalised float32 rows out."""

import os
from pathlib import Path

import numpy as np


class Grilly:
    name = "grilly"

    def __init__(self, model: Path, device: str, **options):
        from grilly import VulkanSentenceTransformer

        self.model = VulkanSentenceTransformer(str(model), device=device, **options)

    def encode(self, texts: list[str], batch_size: int) -> np.ndarray:
        return self.model.encode(texts, batch_size=batch_size)


class SentenceTransformers:
    name = "sentence-transformers"

    def __init__(self, model: Path, device: str, dtype: str = "float32"):
        import torch
        from sentence_transformers import SentenceTransformer

        self.model = SentenceTransformer(str(model), device=device, model_kwargs={"dtype": getattr(torch, dtype)})

    def encode(self, texts: list[str], batch_size: int) -> np.ndarray:
        return self.model.encode(texts, batch_size=batch_size, normalize_embeddings=True, show_progress_bar=False)


class OnnxRuntime:
    """onnxruntime on the CPU, with the same length sorting, mean pooling and unit length around it."""

    name = "onnxruntime"

    def __init__(self, model: Path, threads: int, limit: int = 256):
        from tokenizers import Tokenizer

        self.open(self.stored(self.float32(model)), threads)
        self.tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        self.tokenizer.enable_truncation(limit)
        self.tokenizer.enable_padding(pad_id=0)

    @staticmethod
    def float32(model: Path) -> Path:
        """The model as ONNX, written once."""
        import bert_onnx

        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "grilly" / "onnx"
        graph = cache / f"{bert_onnx.fingerprint(model)}.onnx"
        if not graph.exists():
            bert_onnx.write(model, graph)
        return graph

    @staticmethod
    def stored(graph: Path) -> Path:
        """The file that runs."""
        return graph

    def open(self, graph: Path, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])

    def tokens(self, texts: list[str]) -> dict[str, np.ndarray]:
        rows = self.tokenizer.encode_batch(texts)
        return {
            "input_ids": np.array([row.ids for row in rows], np.int64),
            "attention_mask": np.array([row.attention_mask for row in rows], np.int64),
        }

    def forward(self, tokens: dict[str, np.ndarray]) -> np.ndarray:
        return self.session.run(None, tokens)[0]

    def encode(self, texts: list[str], batch_size: int) -> np.ndarray:
        order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
        rows = None
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            tokens = self.tokens([texts[index] for index in chosen])
            hidden = self.forward(tokens)
            mask = tokens["attention_mask"][..., None].astype(np.float32)
            pooled = (hidden * mask).sum(axis=1) / mask.sum(axis=1)
            if rows is None:
                rows = np.empty((len(texts), pooled.shape[1]), np.float32)
            rows[chosen] = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return rows


class OnnxInt8(OnnxRuntime):
    """The same with weights in int8 and activations rounded as they come, by onnxruntime's own tool."""

    name = "onnxruntime int8"

    @staticmethod
    def stored(graph: Path) -> Path:
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic

        small = graph.with_suffix(".int8.onnx")
        if not small.exists():
            # Fused operators have no shapes that the tool could infer types from.
            types = {"DefaultTensorType": onnx.TensorProto.FLOAT}
            quantize_dynamic(graph, small, weight_type=QuantType.QInt8, extra_options=types)
        return small


class OpenVino(OnnxRuntime):
    """OpenVINO as it comes, on the same ONNX file."""

    name = "openvino"

    def open(self, graph: Path, threads: int) -> None:
        import openvino

        compiled = openvino.Core().compile_model(str(graph), "CPU", {"INFERENCE_NUM_THREADS": threads})
        self.session = compiled

    def forward(self, tokens: dict[str, np.ndarray]) -> np.ndarray:
        return self.session(tokens)[0]
