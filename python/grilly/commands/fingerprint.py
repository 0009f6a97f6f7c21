"""`python -m grilly fingerprint`: one number for all bits of a model's embeddings, to compare machines."""

import argparse
import hashlib
from pathlib import Path

import numpy as np

from grilly import VulkanSentenceTransformer
from grilly.commands.table import command

__all__ = ["fingerprint", "main", "texts"]


@command("fingerprint")
def main(given: argparse.Namespace) -> int:
    """Prints the fingerprint of a model and what its numbers mean; returns the exit status.

    Example:
        >>> from grilly.commands import fingerprint
        >>> fingerprint.main(["no-such-folder/model"])
        1
    """
    with VulkanSentenceTransformer(given.model, device=given.device, numerics=given.numerics) as model:
        print(f"{fingerprint(model)} {model.numerics}")
    return 0


def texts() -> list[str]:
    """The texts of which embeddings are computed: lines of several languages and kinds, and all of them as one.

    Example:
        >>> from grilly.commands.fingerprint import texts
        >>> len(texts()), texts()[0]
        (21, 'A cat sits on the mat.')
    """
    lines = Path(__file__).with_name("fingerprint.txt").read_text(encoding="utf-8").splitlines()
    return [*lines, " ".join(lines)]


def fingerprint(model: VulkanSentenceTransformer) -> str:
    """SHA-256 of the embeddings of `texts()`, `(21, D)` float32, little endian, as the model's modules give them.

    Args:
        model: Of any device; with `numerics="everywhere"` every device gives the same.

    Returns:
        64 hexadecimal digits.

    Raises:
        NotFiniteError: An embedding is NaN or infinite.

    Example:
        >>> from grilly import VulkanSentenceTransformer
        >>> from grilly.commands.fingerprint import fingerprint
        >>> with VulkanSentenceTransformer("all-MiniLM-L6-v2", device="cpu") as model:
        ...     len(fingerprint(model))
        64
    """
    rows = model.encode(texts(), normalize_embeddings=False)
    return hashlib.sha256(np.asarray(rows, dtype="<f4", order="C").tobytes()).hexdigest()
