"""The activations of quantised layers: the functions of `grilly.functional` by their names here, and one of its own."""

from typing import Any

from grilly.functional.activations import gelu as gelu_forward
from grilly.functional.activations import (
    gelu_backward,
    leaky_relu_backward,
    relu_backward,
    sigmoid_backward,
    tanh_backward,
)
from grilly.functional.activations import leaky_relu as leaky_relu_forward
from grilly.functional.activations import relu as relu_forward
from grilly.functional.activations import sigmoid as sigmoid_forward
from grilly.functional.activations import silu as swish_forward
from grilly.functional.activations import silu_backward as swish_backward
from grilly.functional.activations import tanh as tanh_forward
from grilly.functional.checks import flag, fraction
from grilly.functional.dispatch import Operand, Result, evaluate, floats
from grilly.functional.dropout import draw_seed, seed_value
from grilly.functional.norms import layer_norm as layer_norm_forward
from grilly.functional.norms import softmax as softmax_forward
from grilly.functional.norms import softmax_backward

__all__ = [
    "fused_relu_dropout",
    "gelu_backward",
    "gelu_forward",
    "layer_norm_forward",
    "leaky_relu_backward",
    "leaky_relu_forward",
    "relu_backward",
    "relu_forward",
    "sigmoid_backward",
    "sigmoid_forward",
    "softmax_backward",
    "softmax_forward",
    "swish_backward",
    "swish_forward",
    "tanh_backward",
    "tanh_forward",
]


def fused_relu_dropout(input: Operand, p: float = 0.5, training: bool = True, seed: int | None = None) -> Result:
    """`functional.dropout` of `functional.relu`, as one submission: `max(x, 0) / (1 - p)` where kept, else 0.

    Args:
        input: Any shape; float16 stays float16.
        p: Probability of an element to become 0, in 0 .. 1; default 0.5.
        training: Whether anything is dropped; default True.
        seed: 0 .. 2^64 - 1; default one from NumPy's global generator.

    Returns:
        The same shape.

    Raises:
        InvalidArgumentError: `p` or `seed` out of its range.

    Source: `functional.relu` and `functional.dropout`, whose bits it has.

    Example:
        >>> from grilly import quant
        >>> quant.fused_relu_dropout([-1.0, 2.0], training=False).tolist()
        [0.0, 2.0]
    """
    name = "fused_relu_dropout"
    share, x = fraction(name, "p", p), floats(input, "input")
    key = draw_seed() if seed is None else seed_value(name, seed)
    drops = flag(name, "training", training) and share > 0

    def body(r: Any, x: Any) -> Any:
        y = r("activation", x, kind="relu")
        return r("dropout", y, p=share, seed=key) if drops else y

    return evaluate(name, body, x)
