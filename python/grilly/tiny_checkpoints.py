"""Small checkpoints of every family in the reference's own format, with numbers that every run draws alike."""

import gzip
import json
from os import PathLike
from pathlib import Path
from typing import Any

from grilly import _core
from grilly.drawn import draw
from grilly.errors import InvalidArgumentError
from grilly.nearest import nearest
from grilly.safetensors_file import safetensors

#: Of each `model_type`: the JSON files of the folder, and the names and shapes of the tensors of each part.
TABLE = Path(__file__).with_name("tiny_checkpoints.json.gz")


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
        meant = nearest(str(model_type), known)
        raise InvalidArgumentError(f"model_type {model_type!r}: expected one of {', '.join(sorted(known))}{meant}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise InvalidArgumentError(f"seed {seed!r}: expected a whole number from 0 to 4294967295")
    family = known[model_type]
    return write(family, table["tokenizers"][family["tokenizer"]], folder, seed)


def write(family: dict[str, Any], tokenizer: dict[str, Any], folder: str | PathLike[str], seed: int) -> Path:
    """Writes a model as a row of the table describes it."""
    files = [(name, json.dumps(content, indent=2).encode()) for name, content in family["files"].items()]
    files.append(("tokenizer.json", json.dumps(tokenizer).encode()))
    for part, shapes in family["parts"].items():
        tensors = {name: draw(f"{part}{name}", shape, seed) for name, shape in shapes.items()}
        files.append((f"{part}/model.safetensors".lstrip("/"), safetensors(tensors)))
    _core.write_files(folder, files, False)
    return Path(folder)


#: all-MiniLM-L6-v2's: layers, heads, columns of the hidden state and between the products, positions, tokens of a text.
LAYERS, HEADS, HIDDEN, INTERMEDIATE, POSITIONS, LONGEST = 6, 12, 384, 1536, 512, 256


def checkpoint_of_minilm(folder: str | PathLike[str], *, seed: int = 0) -> Path:
    """Writes a model in the sizes of all-MiniLM-L6-v2 with random weights and the small vocabulary of the table.

    Args:
        folder: Where to write; it is made if it is missing.
        seed: Other numbers for another one; default 0.

    Returns:
        The folder.

    Raises:
        InvalidArgumentError: `folder` has one of the files already.

    Example:
        >>> import tempfile
        >>> from grilly import VulkanSentenceTransformer
        >>> from grilly.tiny_checkpoints import checkpoint_of_minilm
        >>> VulkanSentenceTransformer(checkpoint_of_minilm(tempfile.mkdtemp()), device="cpu").encode("one").shape
        (384,)
    """
    table = json.loads(gzip.decompress(TABLE.read_bytes()))
    family = table["families"]["bert"]
    config = family["files"]["config.json"]
    larger = {config["hidden_size"]: HIDDEN, config["intermediate_size"]: INTERMEDIATE}
    config |= {"hidden_size": HIDDEN, "intermediate_size": INTERMEDIATE, "num_attention_heads": HEADS}
    config |= {"num_hidden_layers": LAYERS, "max_position_embeddings": POSITIONS}
    family["files"]["1_Pooling/config.json"]["embedding_dimension"] = HIDDEN
    family["files"]["tokenizer_config.json"]["model_max_length"] = LONGEST
    first = "encoder.layer.0."
    shapes: dict[str, list[int]] = {}
    for name, shape in family["parts"][""].items():
        rows = [POSITIONS] if "position_embeddings" in name else [larger.get(size, size) for size in shape[:1]]
        whole = rows + [larger.get(size, size) for size in shape[1:]]
        if name.startswith(first):
            shapes |= {f"encoder.layer.{layer}.{name.removeprefix(first)}": whole for layer in range(LAYERS)}
        elif not name.startswith("encoder.layer."):
            shapes[name] = whole
    family["parts"][""] = shapes
    return write(family, table["tokenizers"]["bert"], folder, seed)
