"""Initialisation of parameters in place."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np

from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.functional.checks import number, one_of
from grilly.functional.dropout import draw_seed

__all__ = ["kaiming_normal_", "kaiming_uniform_", "xavier_normal_", "xavier_uniform_"]

Tensor = TypeVar("Tensor", bound=np.ndarray)

#: Factor by which a function makes its argument's deviation smaller.
GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75}


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fills with uniform numbers from `-b` to `b`, where `b = gain sqrt(6 / (fan_in + fan_out))`.

    Numbers are drawn from NumPy's global generator: `numpy.random.seed` makes them reproducible.

    Args:
        tensor: A parameter or NumPy array of floats, `(..., fan_out, fan_in)`.
        gain: Default 1.

    Returns:
        `tensor`.

    Raises:
        InvalidArgumentError: Fewer than 2 axes, or a gain below 0.
        InvalidTypeError: No NumPy array of floats.

    Source: upstream's function of this name; Glorot and Bengio (2010).

    Example:
        >>> from grilly import nn, utils
        >>> float(abs(utils.xavier_uniform_(nn.Linear(3, 3).weight)).max()) <= 1.0
        True
    """
    inputs, outputs = _fans("xavier_uniform_", tensor)
    return _uniform(tensor, number("xavier_uniform_", "gain", gain, least=0) * math.sqrt(6 / (inputs + outputs)))


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fills with normal numbers of deviation `gain sqrt(2 / (fan_in + fan_out))`.

    Args:
        tensor: As for `xavier_uniform_`.
        gain: Default 1.

    Returns:
        `tensor`.

    Raises:
        InvalidArgumentError: Fewer than 2 axes, or a gain below 0.
        InvalidTypeError: No NumPy array of floats.

    Source: upstream's function of this name; Glorot and Bengio (2010).

    Example:
        >>> from grilly import nn, utils
        >>> utils.xavier_normal_(nn.Linear(3, 2).weight).shape
        (2, 3)
    """
    inputs, outputs = _fans("xavier_normal_", tensor)
    return _normal(tensor, number("xavier_normal_", "gain", gain, least=0) * math.sqrt(2 / (inputs + outputs)))


def kaiming_uniform_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Fills with uniform numbers from `-b` to `b`, where `b = gain sqrt(3 / fan)`.

    Args:
        tensor: As for `xavier_uniform_`.
        a: Slope of the leaky ReLU below 0; default 0.
        mode: `"fan_in"` or `"fan_out"`; default `"fan_in"`.
        nonlinearity: `"leaky_relu"` (default) for the gain `sqrt(2 / (1 + a^2))`, `"relu"` for `sqrt(2)`, `"tanh"` for
            5/3, `"selu"` for 3/4, `"linear"` or `"sigmoid"` for 1.

    Returns:
        `tensor`.

    Raises:
        InvalidArgumentError: Fewer than 2 axes, or another mode or nonlinearity.
        InvalidTypeError: No NumPy array of floats.

    Source: upstream's function of this name; He et al. (2015).

    Example:
        >>> from grilly import nn, utils
        >>> float(abs(utils.kaiming_uniform_(nn.Linear(6, 3).weight)).max()) <= 1.0
        True
    """
    return _uniform(tensor, math.sqrt(3) * _deviation("kaiming_uniform_", tensor, a, mode, nonlinearity))


def kaiming_normal_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Fills with normal numbers of deviation `gain / sqrt(fan)`.

    Args:
        tensor: As for `xavier_uniform_`.
        a: As for `kaiming_uniform_`; default 0.
        mode: As for `kaiming_uniform_`; default `"fan_in"`.
        nonlinearity: As for `kaiming_uniform_`; default `"leaky_relu"`.

    Returns:
        `tensor`.

    Raises:
        InvalidArgumentError: Fewer than 2 axes, or another mode or nonlinearity.
        InvalidTypeError: No NumPy array of floats.

    Source: upstream's function of this name; He et al. (2015).

    Example:
        >>> from grilly import nn, utils
        >>> utils.kaiming_normal_(nn.Linear(3, 2).weight, mode="fan_out").shape
        (2, 3)
    """
    return _normal(tensor, _deviation("kaiming_normal_", tensor, a, mode, nonlinearity))


def _fans(function: str, tensor: Any) -> tuple[int, int]:
    """Inputs and outputs of one result, and that the array can be filled."""
    if not isinstance(tensor, np.ndarray) or tensor.dtype.kind != "f":
        kind = tensor.dtype if isinstance(tensor, np.ndarray) else type(tensor).__name__
        raise InvalidTypeError(f"{function}: tensor is of type {kind}, expected a parameter or a NumPy array of floats")
    if tensor.ndim < 2:
        raise InvalidArgumentError(f"{function}: tensor has shape {list(tensor.shape)}, expected at least 2 axes")
    return max(tensor.shape[-1], 1), max(tensor.shape[-2], 1)


def _deviation(function: str, tensor: Any, a: float, mode: str, nonlinearity: str) -> float:
    fans = dict(zip(("fan_in", "fan_out"), _fans(function, tensor), strict=True))
    fan = fans[one_of(function, "mode", mode, tuple(fans))]
    kind = one_of(function, "nonlinearity", nonlinearity, ("leaky_relu", *GAINS))
    gain = math.sqrt(2 / (1 + number(function, "a", a) ** 2)) if kind == "leaky_relu" else GAINS[kind]
    return gain / math.sqrt(fan)


def _uniform(tensor: Tensor, bound: float) -> Tensor:
    tensor[...] = np.random.default_rng(draw_seed()).uniform(-bound, bound, tensor.shape)
    return tensor


def _normal(tensor: Tensor, deviation: float) -> Tensor:
    tensor[...] = np.random.default_rng(draw_seed()).normal(0.0, deviation, tensor.shape)
    return tensor
