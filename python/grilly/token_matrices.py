"""Texts that have a vector for each token, as callers give them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError
from grilly.tensors import as_array

__all__ = ["EMPTY", "matrices"]

#: The score of a document without a vector, below that of any other.
EMPTY = -1e9


def matrices(given: Any, mask: Any, name: str) -> list[npt.NDArray[Any]]:
    """The vectors of each text that count `(T, D)`; in `(N, T, D)` without a mask, rows of zeros are padding.

    Raises:
        InvalidArgumentError: Other shapes, no numbers, or a mask of another length.

    Example:
        >>> import numpy as np
        >>> from grilly.token_matrices import matrices
        >>> [text.shape for text in matrices(np.float32([[[1, 0], [0, 0]], [[1, 1], [0, 2]]]), None, "texts")]
        [(1, 2), (2, 2)]
    """
    if isinstance(given, list | tuple):
        texts = [np.asarray(as_array(text)) for text in given]
        whole = False
    else:
        array = np.asarray(as_array(given))
        if array.ndim not in (2, 3):
            raise InvalidArgumentError(
                f"{name} has shape {array.shape}, expected (N, T, D), (T, D), or a list of (T, D)"
            )
        texts, whole = list(array[None] if array.ndim == 2 else array), array.ndim == 3
    for place, text in enumerate(texts):
        if text.ndim != 2 or text.dtype.kind not in "fiu":
            raise InvalidArgumentError(
                f"{name}[{place}] is {text.dtype} of shape {text.shape}, expected numbers (T, D)"
            )
    if mask is None:
        return [text[text.any(axis=1)] for text in texts] if whole else texts
    if isinstance(mask, list | tuple):
        masks = [np.asarray(as_array(each)) for each in mask]
    else:
        array = np.asarray(as_array(mask))
        masks = list(array[None] if array.ndim == 1 and len(texts) == 1 else array)
    if len(masks) != len(texts):
        raise InvalidArgumentError(f"{name}_mask has {len(masks)} masks for {len(texts)} texts")
    kept = [each.astype(bool) for each in masks]
    for place, (text, each) in enumerate(zip(texts, kept, strict=True)):
        # As in the reference, the mask of a batch covers its longest text.
        if each.ndim != 1 or len(each) < len(text) or each[len(text) :].any():
            raise InvalidArgumentError(
                f"{name}_mask[{place}] has shape {each.shape}, but {name}[{place}] {len(text)} vectors"
            )
    return [text[each[: len(text)]] for text, each in zip(texts, kept, strict=True)]
