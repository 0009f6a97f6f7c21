"""Copies a model's folder with its weights rounded to float16, so that both engines can load the same small file.

usage: python benchmarks/half_weights.py MODEL_FOLDER NEW_FOLDER
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np


def round_to_half(source: Path, target: Path) -> None:
    """Rewrites a safetensors file: every F32 tensor becomes F16, everything else stays."""
    data = source.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    body = data[8 + length :]
    metadata = header.pop("__metadata__", None)
    pieces, offset = [], 0
    for entry in header.values():
        begin, end = entry["data_offsets"]
        piece = body[begin:end]
        if entry["dtype"] == "F32":
            piece = np.frombuffer(piece, "<f4").astype("<f2").tobytes()
            entry["dtype"] = "F16"
        entry["data_offsets"] = [offset, offset + len(piece)]
        offset += len(piece)
        pieces.append(piece)
    if metadata is not None:
        header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    target.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(pieces))


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.safetensors", "*.bin", "data_config.json"))
    for file in source.rglob("*.safetensors"):
        round_to_half(file, target / file.relative_to(source))


if __name__ == "__main__":
    main()
