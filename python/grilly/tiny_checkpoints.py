"""Small checkpoints of every family in the reference's own format, with numbers that every run draws alike."""

import gzip
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from grilly import _core
from grilly.errors import InvalidArgumentError

#: Of each `model_type`: the JSON files of the folder, and the names and shapes of the tensors of each part.
TABLE = Path(__file__).with_name("tiny_checkpoints.json.gz")
# The first that a tensor's name contains: the spread of its numbers. Matrices go by their number of inputs.
SPREADS = {
    "word_embeddings": 0.5,
    "tok_embeddings": 0.5,
    "position_embeddings": 0.3,
    "token_type_embeddings": 0.3,
    "attention_bias": 1.5,
}
SPREADS |= {"rel_embeddings": 0.7, "wte": 0.5, "wpe": 0.3, "embed_tokens": 0.5, "embed_in": 0.5}
SPREADS |= {"shared": 0.5, "SelfAttention.q": 0.03, "EncDecAttention.q": 0.03}  # T5's scores have no factor


def draw(name: str, shape: Sequence[int], seed: int = 0) -> npt.NDArray[np.float32] | npt.NDArray[np.int64]:
    """Weights of a size that makes every part of the network matter, the same wherever name, shape and seed are."""
    if name.endswith("position_ids"):
        return np.arange(shape[-1], dtype=np.int64).reshape(shape)
    # Streams of RandomState never change.
    random = np.random.RandomState(zlib.crc32(name.encode(), seed))
    numbers = random.standard_normal(tuple(shape))
    if len(shape) == 1:
        norm = "norm" in name.lower() or ".ln_" in f".{name}" or "_ln." in name or name.endswith("layer_weights")
        scaled = float(norm and name.endswith(("weight", "weights"))) + (0.2 if norm else 0.1) * numbers
    else:
        chosen = (spread for part, spread in SPREADS.items() if part in name)
        scaled = next(chosen, 1.2 / np.sqrt(shape[-1])) * numbers
    return scaled.astype(np.float32)


def safetensors(tensors: Mapping[str, npt.NDArray[np.float32] | npt.NDArray[np.int64]]) -> bytes:
    """A file of float32 and int64 tensors: 8 bytes of the header's length, the header in JSON, the tensors' bytes."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    body, end = [], 0
    for name, array in tensors.items():
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
        kind = "I64" if array.dtype.kind == "i" else "F32"
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [end, end + len(data)]}
        body.append(data)
        end += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(body)


def tiny_checkpoint(model_type: str, folder: str | PathLike[str], *, seed: int = 0) -> Path:
    """Writes a small model of a family, as transformers or sentence-transformers saves one, without torch.

    Two to four layers of 32 to 64 columns, a tokenizer of some hundred tokens, and random weights that depend on their
    names, their shapes and the seed alone.

    Args:
        model_type: As in config.json: one of the families of the guide of models.
        folder: Where to write; it is made if it is missing.
        seed: Other numbers for another one; default 0.

    Returns:
        The folder, for `VulkanSentenceTransformer` and other readers.

    Raises:
        InvalidArgumentError: An unknown family; `folder` has one of the files already; a negative seed.

    Example:
        >>> import tempfile
        >>> from grilly import VulkanSentenceTransformer, testing
        >>> folder = testing.tiny_checkpoint("llama", tempfile.mkdtemp())
        >>> VulkanSentenceTransformer(folder, device="cpu").encode(["one", "two"]).shape
        (2, 36)
    """
    table = json.loads(gzip.decompress(TABLE.read_bytes()))
    known = table["families"]
    if model_type not in known:
        nearest = get_close_matches(str(model_type), known, 1)
        meant = f"; did you mean {nearest[0]!r}?" if nearest else ""
        raise InvalidArgumentError(f"model_type {model_type!r}: expected one of {', '.join(sorted(known))}{meant}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise InvalidArgumentError(f"seed {seed!r}: expected a whole number from 0 to 4294967295")
    family = known[model_type]
    files = [(name, json.dumps(content, indent=2).encode()) for name, content in family["files"].items()]
    files.append(("tokenizer.json", json.dumps(table["tokenizers"][family["tokenizer"]]).encode()))
    for part, shapes in family["parts"].items():
        tensors = {name: draw(f"{part}{name}", shape, seed) for name, shape in shapes.items()}
        files.append((f"{part}/model.safetensors".lstrip("/"), safetensors(tensors)))
    _core.write_files(folder, files, False)
    return Path(folder)
