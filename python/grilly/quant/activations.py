"""The activations of quantised layers: the functions of `grilly.functional` by their names here, and one of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grilly.functional import activations, norms
from grilly.functional.checks import flag, fraction
from grilly.functional.dispatch import Operand, Result, evaluate, floats
from grilly.functional.dropout import draw_seed, seed_value

relu_forward, relu_backward = activations.relu, activations.relu_backward
gelu_forward, gelu_backward = activations.gelu, activations.gelu_backward
swish_forward, swish_backward = activations.silu, activations.silu_backward
sigmoid_forward, sigmoid_backward = activations.sigmoid, activations.sigmoid_backward
tanh_forward, tanh_backward = activations.tanh, activations.tanh_backward
leaky_relu_forward, leaky_relu_backward = activations.leaky_relu, activations.leaky_relu_backward
softmax_forward, softmax_backward = norms.softmax, norms.softmax_backward
layer_norm_forward = norms.layer_norm

# Type checkers reject a computed list.
if not TYPE_CHECKING:
    __all__ = ["fused_relu_dropout", *(name for name in globals() if name.endswith(("_forward", "_backward")))]


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
