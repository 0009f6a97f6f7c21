"""Conversion of torch tensors for functions that compute with NumPy; torch itself is never imported."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

__all__ = ["as_array", "holds_tensors", "takes_tensors"]

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


def takes_tensors(function: Function) -> Function:
    """Lets a function of arrays accept tensors, positional or by keyword, and then return one.

    Example:
        >>> import numpy as np
        >>> from grilly.tensors import takes_tensors
        >>> takes_tensors(np.negative)(np.ones(2))
        array([-1., -1.])
    """

    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        given = (*arguments, *options.values())
        if not any(holds_tensors(values) for values in given):
            return function(*arguments, **options)
        result = function(*map(as_array, arguments), **{name: as_array(value) for name, value in options.items()})
        return sys.modules["torch"].as_tensor(result)

    return wrapped  # type: ignore[return-value]
