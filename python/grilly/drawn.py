"""Numbers of small checkpoints, drawn alike in every run."""

import math
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

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
        # Of a convolution over one place the inputs come before the last axis.
        inputs = math.prod(shape[1:]) if len(shape) > 2 and shape[-1] == 1 else shape[-1]
        scaled = next(chosen, 1.2 / np.sqrt(inputs)) * numbers
    return scaled.astype(np.float32)
