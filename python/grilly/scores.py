"""From logits to scores: activation functions by name, torch's and any other, and softmax."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from grilly.everywhere import EVERYWHERE, computed

__all__ = [
    "Activation", "activation_of", "apply_activation", "class_of", "identity", "relu", "sigmoid", "softmax", "tanh",
]  # fmt: skip

Floats = npt.NDArray[np.float32]
Activation = Callable[[Any], Any]


def identity(logits: Floats) -> Floats:
    """The logits themselves.

    Example:
        >>> import numpy as np
        >>> from grilly.scores import identity
        >>> identity(np.float32([1.5])).tolist()
        [1.5]
    """
    return logits


def sigmoid(logits: Floats) -> Floats:
    """`1 / (1 + exp(-x))`, computed in float64.

    Example:
        >>> import numpy as np
        >>> from grilly.scores import sigmoid
        >>> sigmoid(np.float32([0.0, -1000.0])).tolist()
        [0.5, 0.0]
    """
    with np.errstate(over="ignore"):
        return (1 / (1 + np.exp(-logits.astype(np.float64)))).astype(np.float32)


def tanh(logits: Floats) -> Floats:
    """The hyperbolic tangent, computed in float64.

    Example:
        >>> import numpy as np
        >>> from grilly.scores import tanh
        >>> tanh(np.float32([0.0])).tolist()
        [0.0]
    """
    return np.tanh(logits.astype(np.float64)).astype(np.float32)


def relu(logits: Floats) -> Floats:
    """`max(x, 0)`.

    Example:
        >>> import numpy as np
        >>> from grilly.scores import relu
        >>> relu(np.float32([-1.0, 2.0])).tolist()
        [0.0, 2.0]
    """
    scores: npt.NDArray[np.float32] = np.maximum(logits, np.float32(0))
    return scores


def softmax(logits: Floats) -> Floats:
    """`exp(x) / sum exp(x)` over the last axis, computed in float64.

    Example:
        >>> import numpy as np
        >>> from grilly.scores import softmax
        >>> softmax(np.float32([[1.0, 1.0]])).tolist()
        [[0.5, 0.5]]
    """
    wide = logits.astype(np.float64)
    wide = np.exp(wide - wide.max(axis=-1, keepdims=True))
    shares: Floats = (wide / wide.sum(axis=-1, keepdims=True)).astype(np.float32)
    return shares


#: Functions by the last part of torch's class name.
BY_CLASS: dict[str, Activation] = {"Identity": identity, "ReLU": relu, "Sigmoid": sigmoid, "Tanh": tanh}
#: The operation of each function, and its attributes.
OPERATIONS: dict[Activation, tuple[str, dict[str, str]]] = {
    relu: ("activation", {"kind": "relu"}),
    sigmoid: ("activation", {"kind": "sigmoid"}),
    softmax: ("softmax", {}),
    tanh: ("activation", {"kind": "tanh"}),
}


def activation_of(path: str, where: str) -> Activation:
    """The function of a class of torch.nn by its path, as config files name it; `where` is the file and key for errors.

    Example:
        >>> from grilly.scores import activation_of
        >>> activation_of("torch.nn.modules.activation.Sigmoid", "config.json").__name__
        'sigmoid'
    """
    found = BY_CLASS.get(path.rpartition(".")[2]) if path.startswith("torch.nn.") else None
    if found is None:
        raise UnsupportedError(
            f"{where} is {path!r}: known are {', '.join(BY_CLASS)} of torch.nn; pass the function as activation_fn"
        )
    return found


def class_of(function: Activation) -> str:
    """The path of the class of torch.nn that is a function, as `activation_of` reads it.

    Raises:
        UnsupportedError: It is none of those that are read.

    Example:
        >>> from grilly.scores import class_of, sigmoid
        >>> class_of(sigmoid)
        'torch.nn.modules.activation.Sigmoid'
    """
    torch = sys.modules.get("torch")
    for name, own in BY_CLASS.items():
        of_torch = torch is not None and (
            type(function) is getattr(torch.nn, name) or function is getattr(torch, name.lower(), None)
        )
        if function is own or of_torch:
            return f"torch.nn.modules.{'linear' if own is identity else 'activation'}.{name}"
    raise UnsupportedError(
        f"activation_fn is {function!r}, which config_sentence_transformers.json cannot name: set it to one of "
        f"{', '.join(BY_CLASS)} of torch.nn, save the model, and pass yours as activation_fn when you load it"
    )


def apply_activation(function: Activation, logits: Floats, numerics: str = "run") -> Floats:
    """Calls a function of arrays, or one of torch with a tensor, on logits `(N, L)`; the result has that shape, too.

    Of a model whose numbers are the same everywhere, the functions of this module are operations with such numbers;
    those of others are as they are.

    Example:
        >>> import numpy as np
        >>> from grilly.scores import apply_activation
        >>> apply_activation(np.negative, np.float32([[1.0]])).tolist()
        [[-1.0]]
    """
    if not callable(function):
        raise InvalidTypeError(f"activation_fn is of type {type(function).__name__}, expected a function")
    if numerics == EVERYWHERE and function in OPERATIONS:
        operation, attributes = OPERATIONS[function]
        return computed(operation, logits, **attributes)
    torch = sys.modules.get("torch")
    if torch is not None and takes_tensors(function, torch):
        result = function(torch.from_numpy(logits)).detach().float().cpu().numpy()
    else:
        result = np.asarray(function(logits), dtype=np.float32)
    if result.shape != logits.shape:
        raise InvalidArgumentError(f"activation_fn gives shape {result.shape} for logits of shape {logits.shape}")
    return result  # type: ignore[no-any-return]


def takes_tensors(function: Any, torch: Any) -> bool:
    """Whether a function is torch's, a module or a function of that package."""
    if isinstance(function, torch.nn.Module):
        return True
    home = str(getattr(function, "__module__", None) or "")
    return home.startswith("torch") or getattr(torch, getattr(function, "__name__", ""), None) is function
