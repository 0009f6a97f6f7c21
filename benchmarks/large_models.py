"""Checkpoints of 100 to 1,500 million random numbers, written in seconds: the tests' checkpoints with larger axes."""

import json
import math
import re
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))
from models import families, safetensors_file  # noqa: E402

#: Random numbers that are repeated: what is measured does not depend on them.
BLOCK = 1 << 22
#: Tensors that no model reads.
UNREAD = ("position_ids", ".attn.bias", "lm_head.weight")
LAYER = re.compile(r"(.*?(?:layers?|block|h)\.)(\d+)(\..*)")


@dataclass(frozen=True)
class Large:
    """A row of tests/fixtures/families.json in other sizes."""

    row: str
    layers: int
    #: What each axis becomes.
    axes: dict[int, int]
    #: What changes in config.json, beside the axes' own keys.
    config: dict
    #: The task whose adapter is merged, and then measured in place of the model.
    task: str | None = None


BASE = {"hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 24, "intermediate_size": 4096}
LARGE = {
    "roberta-large": Large(
        "roberta", 24, {36: 1024, 52: 4096, 600: 50_265, 42: 514},
        BASE | {"vocab_size": 50_265, "max_position_embeddings": 514},
    ),
    "xlm-roberta-large": Large(
        "xlm-roberta", 24, {36: 1024, 52: 4096, 600: 250_002, 42: 514},
        BASE | {"vocab_size": 250_002, "max_position_embeddings": 514},
    ),
    "modernbert-large": Large(
        "modernbert", 28, {36: 1024, 108: 3072, 52: 2624, 104: 5248, 600: 50_368},
        BASE | {"num_hidden_layers": 28, "intermediate_size": 2624, "vocab_size": 50_368},
    ),
    "deberta-v3-large": Large(
        "deberta-v2", 24, {36: 1024, 52: 4096, 600: 128_100, 24: 512},
        BASE | {"vocab_size": 128_100, "position_buckets": 256, "pooler_hidden_size": 1024}
        | {"max_relative_positions": -1, "max_position_embeddings": 512},
    ),
    "deberta-v3-base": Large(
        "deberta-v2", 12, {36: 768, 52: 3072, 600: 128_100, 24: 512},
        {"hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12, "intermediate_size": 3072}
        | {"vocab_size": 128_100, "position_buckets": 256, "pooler_hidden_size": 768}
        | {"max_relative_positions": -1, "max_position_embeddings": 512},
    ),
    "t5-base": Large(
        "mt5", 12, {36: 768, 30: 768, 52: 2048, 600: 32_128, 12: 32, 3: 12},
        {"d_model": 768, "d_kv": 64, "num_heads": 12, "d_ff": 2048, "num_layers": 12, "vocab_size": 32_128}
        | {"relative_attention_num_buckets": 32},
    ),
    "gte-qwen2-1.5b": Large(
        "qwen2", 28, {36: 1536, 52: 8960, 20: 256, 60: 1536, 600: 151_646},
        {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12}
        | {"num_key_value_heads": 2, "head_dim": 128, "vocab_size": 151_646, "use_sliding_window": False}
        | {"max_position_embeddings": 32_768},
    ),
    "t5-large": Large(
        "mt5", 24, {36: 1024, 30: 1024, 52: 2816, 600: 32_128, 12: 32, 3: 16},
        {"d_model": 1024, "d_kv": 64, "num_heads": 16, "d_ff": 2816, "num_layers": 24, "vocab_size": 32_128}
        | {"relative_attention_num_buckets": 32},
    ),
    "gemma3-300m": Large(
        "gemma3_text", 24, {42: 768, 52: 1152, 10: 256, 60: 768, 20: 256, 600: 262_144},
        {"hidden_size": 768, "intermediate_size": 1152, "num_hidden_layers": 24, "num_attention_heads": 3}
        | {"num_key_value_heads": 1, "head_dim": 256, "query_pre_attn_scalar": 256, "vocab_size": 262_144},
    ),
    "qwen3-0.6b": Large(
        "qwen3", 28, {36: 1024, 52: 3072, 10: 128, 60: 2048, 20: 1024, 600: 151_669},
        {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16}
        | {"num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151_669, "use_sliding_window": False},
    ),
    "gpt2-medium": Large(
        "gpt2", 24, {36: 1024, 108: 3072, 144: 4096, 600: 50_257, 40: 1024},
        {"n_embd": 1024, "n_head": 16, "n_layer": 24, "n_positions": 1024, "vocab_size": 50_257},
    ),
    "jina-lora": Large(
        "jina-lora", 24, {36: 1024, 108: 3072, 52: 4096, 600: 250_002, 3: 4},
        BASE | {"vocab_size": 250_002, "lora_rank": 4, "lora_alpha": 1}, "separation",
    ),
}  # fmt: skip


def shapes(large: Large) -> dict[str, list[int]]:
    """Names and axes of the tensors; layers beyond those of the row are as its last."""
    tensors: dict[str, list[int]] = {}
    rows = families.table()[large.row]["tensors"]
    found = {name: LAYER.fullmatch(name) for name in rows}
    last = max(int(match[2]) for match in found.values() if match)
    for name, axes in rows.items():
        if name.endswith(UNREAD):
            continue
        match = found[name]
        numbers = [] if match is None else [int(match[2]), *range(last + 1, large.layers)]
        names = [name] if match is None else [f"{match[1]}{number}{match[3]}" for number in numbers]
        if match is not None and int(match[2]) != last:
            names = names[:1]
        for renamed in names:
            tensors[renamed] = [large.axes.get(axis, axis) for axis in axes]
    return tensors


def numbers(large: Large) -> int:
    """Elements of the tensors, without the factors of adapters."""
    return sum(math.prod(axes) for name, axes in shapes(large).items() if "lora_" not in name)


def write_tensors(path: Path, tensors: dict[str, list[int]], dtype: str) -> None:
    """Norms are ones, others small; they are numbers of float16 in every type."""
    block = np.random.default_rng(1).standard_normal(BLOCK, np.float32) * np.float32(0.02)
    block = block.astype(np.float16).astype(np.float32)
    stored, size = safetensors_file.to_bytes(block, dtype), int(dtype[-2:]) // 8
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, axes in tensors.items():
        end = offset + size * math.prod(axes)
        header[name] = {"dtype": dtype, "shape": axes, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for place, axes in enumerate(tensors.values()):
            left, start = size * math.prod(axes), size * (place * 4099 % (BLOCK // 2))
            while left > 0:
                piece = memoryview(stored)[start : start + left]
                file.write(piece)
                left, start = left - len(piece), 0


def write(name: str, folder: Path, dtype: str) -> Path:
    """Writes a model, whose numbers are stored as `"F16"` or `"F32"`."""
    large = LARGE[name]
    row = families.table()[large.row]
    families.write_tokenizer(row["tokenizer"], folder)
    hidden = next(large.config[key] for key in ("hidden_size", "d_model", "n_embd") if key in large.config)
    changes = large.config | {"embedding_dimension": hidden, "word_embedding_dimension": hidden}
    for path, content in row["files"].items():
        if isinstance(content, dict):
            content = {key: changes.get(key, value) for key, value in content.items() if key != "layer_types"}
        if path == "modules.json":  # of the sizes of others nothing is known
            own = row.get("own_module") or {}
            content = [content[0] | own, *(module for module in content[1:] if "Dense" not in module["type"])]
        (folder / path).parent.mkdir(exist_ok=True, parents=True)
        (folder / path).write_text(json.dumps(content), encoding="utf-8")
    write_tensors(folder / "model.safetensors", shapes(large), dtype)
    return folder
