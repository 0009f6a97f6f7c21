"""Arrays in and out: conversion from and to torch tensors, which results alone import, and rows as requested.

Where torch is missing, and for results that are tensors in sentence-transformers, an array answers as a tensor
(`grilly.numbers`).
"""

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError
from grilly.numbers import Numbers

__all__ = [
    "as_array",
    "as_tensor",
    "holds_tensors",
    "like",
    "normalize_rows",
    "stored",
    "takes_tensors",
    "to_tensor",
    "token_features",
]


Function = TypeVar("Function", bound=Callable[..., Any])


def holds_tensors(values: Any) -> bool:
    """Whether `values` is a torch tensor, or a list or tuple that begins with one.

    Example:
        >>> from grilly.tensors import holds_tensors
        >>> holds_tensors([1.0, 2.0])
        False
    """
    torch = sys.modules.get("torch")
    first = values[0] if isinstance(values, list | tuple) and values else values
    return torch is not None and isinstance(first, torch.Tensor)


def as_array(values: Any) -> Any:
    """Converts tensors to arrays, bfloat16 to float32, sparse ones with their zeros; everything else is unchanged.

    Example:
        >>> from grilly.tensors import as_array
        >>> as_array([1.0, 2.0])
        [1.0, 2.0]
    """
    if not holds_tensors(values):
        return values
    if isinstance(values, list | tuple):
        return np.stack([as_array(each) for each in values])
    tensor = values.detach().cpu()
    tensor = tensor if str(tensor.layout) == "torch.strided" else tensor.to_dense()
    return (tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy()


def need_columns(a: Any, b: Any) -> None:
    """Rejects embeddings that are not matrices with the same number of columns."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise InvalidArgumentError(f"embeddings have shapes {a.shape} and {b.shape}, expected (N, D), (M, D)")


def takes_tensors(function: Function) -> Function:
    """Lets a function of arrays accept tensors, positional or by keyword, and then return one; else see `like`.

    Example:
        >>> import numpy as np
        >>> from grilly.tensors import takes_tensors
        >>> takes_tensors(np.negative)(np.ones(2))
        array([-1., -1.])
    """

    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        given = (*arguments, *options.values())
        result = function(*map(as_array, arguments), **{name: as_array(value) for name, value in options.items()})
        return like(result, *given)

    return wrapped  # type: ignore[return-value]


def like(result: npt.NDArray[Any], *given: Any) -> Any:
    """A result as a tensor if there are tensors among what was given, else as an array that answers as one.

    Example:
        >>> import numpy as np
        >>> from grilly.tensors import like
        >>> like(np.array([1, 3, 2]), [1.0]).topk(1).indices.tolist()
        [1]
    """
    if any(map(holds_tensors, given)):
        return sys.modules["torch"].as_tensor(result)
    return result.view(Numbers)


# Rows normalised per block, so that their float64 copy stays small.
ROWS = 1024


def normalize_rows(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Divides each row of `(N, D)` by `max(norm, 1e-12)`, in place; a row's result depends on that row alone.

    Example:
        >>> import numpy as np
        >>> from grilly.tensors import normalize_rows
        >>> normalize_rows(np.array([[3.0, 4.0], [0.0, 0.0]], dtype=np.float32)).tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    for start in range(0, len(rows), ROWS):
        block = rows[start : start + ROWS]
        squares = np.square(block, dtype=np.float64)
        norms = np.sqrt(np.add.reduce(squares, axis=1))
        block /= np.maximum(norms, 1e-12).astype(np.float32)[:, None]
    return rows


def stored(rows: npt.NDArray[np.float32], dtype: str) -> npt.NDArray[np.floating[Any]]:
    """Rows in a model's element type; float32 for bfloat16, which NumPy does not have.

    Example:
        >>> import numpy as np
        >>> from grilly.tensors import stored
        >>> stored(np.ones(2, np.float32), "float16").dtype.name, stored(np.ones(2, np.float32), "bfloat16").dtype.name
        ('float16', 'float32')
    """
    return rows.astype(np.float16) if dtype == "float16" else rows


def token_features(
    sentences: npt.NDArray[np.floating[Any]], tokens: list[npt.NDArray[np.floating[Any]]], ids: list[list[int]]
) -> list[dict[str, npt.NDArray[Any]]]:
    """The result of `output_value=None`: ids, mask, token and sentence embeddings per text, without padding."""
    return [
        {
            "input_ids": like(np.array(row_ids, dtype=np.int64)),
            "attention_mask": like(np.ones(len(row_ids), dtype=np.int64)),
            "token_embeddings": like(row_tokens),
            "sentence_embedding": like(sentence),
        }
        for sentence, row_tokens, row_ids in zip(sentences, tokens, ids, strict=True)
    ]


def to_tensor(array: npt.NDArray[Any], dtype: str | None = None) -> Any:
    """A torch tensor on the CPU, of the model's element type if given; it shares the array's memory if it can.

    Raises:
        ImportError: torch is not installed.
    """
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise ImportError("a tensor needs torch, which cannot be imported; pip install torch") from error
    tensor = torch.from_numpy(array)
    return tensor.to(getattr(torch, dtype)) if dtype else tensor


def as_tensor(array: npt.NDArray[Any], dtype: str | None = None) -> Any:
    """`to_tensor` where torch is installed, else an array that answers as a tensor: the result of `convert_to_tensor`.

    Example:
        >>> import numpy as np
        >>> from grilly.tensors import as_tensor
        >>> as_tensor(np.array([1, 3, 2])).cpu().topk(1).indices.tolist()
        [1]
    """
    try:
        return to_tensor(array, dtype)
    except ImportError:
        return like(array)
