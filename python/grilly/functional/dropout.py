"""Dropout by a counter-based generator: the same seed drops the same elements on every device."""

import numpy as np

from grilly.errors import InvalidArgumentError
from grilly.functional.checks import flag, fraction, whole
from grilly.functional.dispatch import Operand, Result, evaluate, floats

__all__ = ["dropout", "dropout_backward"]


def dropout(input: Operand, p: float = 0.5, training: bool = True, seed: int | None = None) -> Result:
    """Sets elements to 0 with probability `p` and divides the others by `1 - p`.

    Whether an element is dropped depends only on `seed` and its position (Philox4x32-10).

    Args:
        input: Any shape.
        p: In 0 .. 1; default 0.5.
        training: Whether anything is dropped; default True.
        seed: 0 .. 2^64 - 1; default one from NumPy's global generator, so that `numpy.random.seed` makes it
            reproducible.

    Returns:
        The same shape.

    Raises:
        InvalidArgumentError: `p` or `seed` out of its range.

    Source: upstream's `functional.dropout`; Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (2011).

    Example:
        >>> from grilly import functional
        >>> bool((functional.dropout([1.0] * 4, seed=1) == functional.dropout([1.0] * 4, seed=1)).all())
        True
    """
    share = fraction("dropout", "p", p)
    x = floats(input, "input")
    if not flag("dropout", "training", training) or share == 0:
        return evaluate("dropout", lambda r, x: x, x)
    key = draw_seed() if seed is None else seed_value("dropout", seed)
    return evaluate("dropout", lambda r, x: r("dropout", x, p=share, seed=key), x)


def dropout_backward(grad_output: Operand, p: float, seed: int) -> Result:
    """Derivative of `dropout` with the same `p` and `seed`: elements dropped there have gradient 0.

    Args:
        grad_output: Gradient of the loss with respect to the result.
        p: As in `dropout`.
        seed: As in `dropout`.

    Returns:
        The same shape.

    Raises:
        InvalidArgumentError: `p` or `seed` out of its range.

    Source: the derivative of `dropout`.

    Example:
        >>> from grilly import functional
        >>> functional.dropout_backward([2.0, 3.0], p=0.0, seed=1).tolist()
        [2.0, 3.0]
    """
    share, key = fraction("dropout_backward", "p", p), seed_value("dropout_backward", seed)
    g = floats(grad_output, "grad_output")
    return evaluate("dropout_backward", lambda r, g: r("dropout", g, p=share, seed=key), g)


def seed_value(name: str, seed: int) -> int:
    found = whole(name, "seed", seed, least=0)
    if found >= 2**64:
        raise InvalidArgumentError(f"{name}: seed is {found}, expected less than 2^64")
    return found


def draw_seed() -> int:
    """A seed from NumPy's global generator."""
    return int(np.random.randint(0, 2**63 - 1, dtype=np.int64))
