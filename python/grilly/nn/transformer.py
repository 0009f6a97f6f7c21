"""Pre-norm transformer layers."""

from __future__ import annotations

from typing import Any

from grilly import functional
from grilly.errors import UnsupportedError
from grilly.functional.checks import fraction, one_of, whole
from grilly.functional.dispatch import Operand, Result
from grilly.nn.activations import GELU, ReLU, SiLU
from grilly.nn.attention import MultiheadAttention, RoPE
from grilly.nn.layers import Dropout, Linear
from grilly.nn.module import Module
from grilly.nn.norms import LayerNorm

__all__ = ["TransformerDecoderLayer", "TransformerEncoderLayer"]

ACTIVATIONS: dict[str, type[Module]] = {"gelu": GELU, "relu": ReLU, "silu": SiLU}


class TransformerLayer(Module):
    """Common parts of encoder and decoder layers: self-attention, feed-forward block and their dropout."""

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int | None, dropout: float, activation: str, use_rope: bool
    ) -> None:
        super().__init__()
        kind = ACTIVATIONS[one_of(type(self).__name__, "activation", activation, tuple(ACTIVATIONS))]
        owner = type(self).__name__
        self.d_model, self.nhead = whole(owner, "d_model", d_model), whole(owner, "nhead", nhead)
        self.dropout = fraction(owner, "dropout", dropout)
        inner = 0 if dim_feedforward is None else whole(owner, "dim_feedforward", dim_feedforward, least=0)
        self.dim_feedforward = inner or 4 * d_model
        self.use_rope = use_rope
        self.self_attn = MultiheadAttention(d_model, nhead, dropout)
        self.rope = RoPE(d_model // nhead) if use_rope else None
        self.linear1 = Linear(d_model, self.dim_feedforward)
        self.linear2 = Linear(self.dim_feedforward, d_model)
        self.activation = kind()

    def attend(self, attention: Any, x: Operand, memory: Operand, mask: Operand | None, rope: Any) -> Result:
        return attention(x, memory, memory, mask, need_weights=False, rope=rope)[0]

    def feed_forward(self, x: Operand, inner: Module, outer: Module) -> Result:
        return outer(self.linear2(inner(self.activation(self.linear1(x)))))

    def attend_backward(
        self,
        grad_output: Operand,
        attention: MultiheadAttention,
        x: Operand,
        memory: Operand,
        mask: Operand | None,
        rope: RoPE | None,
    ) -> tuple[Result, Result]:
        """The gradients of `attend` in `x` and `memory`."""
        by_query, by_key, by_value = attention.backward(grad_output, x, memory, memory, mask, rope=rope)
        return by_query, functional.residual(by_key, by_value)

    def feed_forward_backward(self, grad_output: Operand, x: Operand, inner: Dropout, outer: Dropout) -> Result:
        hidden = self.linear1(x)
        # Dropout is linear: its derivative drops the same elements.
        dropped = inner.backward(self.activation(hidden))
        grad = inner.backward(self.linear2.backward(outer.backward(grad_output), dropped))
        return self.linear1.backward(self.activation.backward(grad, hidden), x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(d_model={self.d_model}, nhead={self.nhead})"


class TransformerEncoderLayer(TransformerLayer):
    """`x + attention(norm1(x))`, then `x + linear2(activation(linear1(norm2(x))))`, with dropout in each part.

    Args:
        d_model: Columns.
        nhead: Heads.
        dim_feedforward: Hidden columns of the feed-forward block; default `4 d_model`.
        dropout: Dropout probability in training mode; default 0.1.
        activation: `"gelu"` (by tanh), `"relu"` or `"silu"`; default `"gelu"`.
        use_rope: Whether queries and keys are rotated by their positions; default False.
        use_prosody: Not supported.

    Raises:
        UnsupportedError: `use_prosody` (also a `NotImplementedError`).

    Source: upstream's `nn.TransformerEncoderLayer`, whose `use_rope` rotated nothing.

    Example:
        >>> import numpy as np
        >>> from grilly import nn
        >>> nn.TransformerEncoderLayer(8, 2).eval()(np.ones((2, 5, 8), np.float32)).shape
        (2, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int | None = None,
        dropout: float = 0.1,
        activation: str = "gelu",
        use_rope: bool = False,
        use_prosody: bool = False,
    ) -> None:
        if use_prosody:
            raise UnsupportedError("use_prosody: prosody is part of upstream grilly and not of this package")
        super().__init__(d_model, nhead, dim_feedforward, dropout, activation, use_rope)
        self.norm1, self.norm2 = LayerNorm(d_model), LayerNorm(d_model)
        self.dropout1, self.dropout2, self.dropout3 = Dropout(dropout), Dropout(dropout), Dropout(dropout)

    def forward(self, src: Operand, src_mask: Operand | None = None, prosody: None = None) -> Result:
        """Maps `src` `(B, S, d_model)` to the same shape; masks as in `MultiheadAttention`, None for none.

        Example:
            >>> import numpy as np
            >>> from grilly import nn
            >>> x = np.ones((1, 3, 4), np.float32)
            >>> nn.TransformerEncoderLayer(4, 1).eval().forward(x, np.array([[1, 1, 0]])).shape
            (1, 3, 4)
        """
        if prosody is not None:
            raise UnsupportedError("prosody is part of upstream grilly and not of this package")
        x = self.norm1(src)
        src = functional.residual(src, self.dropout1(self.attend(self.self_attn, x, x, src_mask, self.rope)))
        return functional.residual(src, self.feed_forward(self.norm2(src), self.dropout2, self.dropout3))

    def backward(self, grad_output: Operand, src: Operand, src_mask: Operand | None = None) -> Result:
        """Accumulates the parameters' gradients and returns that of `src`.

        What is dropped is what the last call dropped.

        Args:
            grad_output: Gradient with respect to the result.
            src: As in the call.
            src_mask: As in the call; default none.

        Example:
            >>> import numpy as np
            >>> from grilly import nn
            >>> layer, x = nn.TransformerEncoderLayer(4, 1), np.ones((1, 3, 4), np.float32)
            >>> layer.backward(x, x).shape, layer.linear2.bias.grad.tolist()
            ((1, 3, 4), [3.0, 3.0, 3.0, 3.0])
        """
        x = self.norm1(src)
        middle = functional.residual(src, self.dropout1.backward(self.self_attn.again(x, x, src_mask, self.rope)))
        grad = self.feed_forward_backward(grad_output, self.norm2(middle), self.dropout2, self.dropout3)
        grad = functional.residual(grad_output, self.norm2.backward(grad, middle))
        both = self.attend_backward(self.dropout1.backward(grad), self.self_attn, x, x, src_mask, self.rope)
        return functional.residual(grad, self.norm1.backward(functional.residual(*both), src))


class TransformerDecoderLayer(TransformerLayer):
    """An encoder layer with cross-attention between self-attention and feed-forward block.

    Args:
        d_model: Columns.
        nhead: Heads.
        dim_feedforward: Hidden columns of the feed-forward block; default `4 d_model`.
        dropout: Dropout probability in training mode; default 0.1.
        activation: `"gelu"` (by tanh), `"relu"` or `"silu"`; default `"gelu"`.
        use_rope: Whether queries and keys of the self-attention are rotated by their positions; default False.

    Source: upstream's `nn.TransformerDecoderLayer`.

    Example:
        >>> import numpy as np
        >>> from grilly import nn
        >>> x, memory = np.ones((2, 3, 8), np.float32), np.ones((2, 5, 8), np.float32)
        >>> nn.TransformerDecoderLayer(8, 2).eval()(x, memory).shape
        (2, 3, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int | None = None,
        dropout: float = 0.1,
        activation: str = "gelu",
        use_rope: bool = False,
    ) -> None:
        super().__init__(d_model, nhead, dim_feedforward, dropout, activation, use_rope)
        self.cross_attn = MultiheadAttention(d_model, nhead, dropout)
        self.norm1, self.norm2, self.norm3 = LayerNorm(d_model), LayerNorm(d_model), LayerNorm(d_model)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self.dropout3, self.dropout4 = Dropout(dropout), Dropout(dropout)

    def forward(
        self,
        tgt: Operand,
        memory: Operand,
        tgt_mask: Operand | None = None,
        memory_mask: Operand | None = None,
    ) -> Result:
        """Maps `tgt` `(B, S, d_model)` to the same shape; masks as in `MultiheadAttention`, None for none.

        Example:
            >>> import numpy as np
            >>> from grilly import nn
            >>> x = np.ones((1, 3, 4), np.float32)
            >>> nn.TransformerDecoderLayer(4, 1).eval().forward(x, x, np.tri(3, dtype=bool)[None]).shape
            (1, 3, 4)
        """
        x = self.norm1(tgt)
        tgt = functional.residual(tgt, self.dropout1(self.attend(self.self_attn, x, x, tgt_mask, self.rope)))
        x = self.norm2(tgt)
        tgt = functional.residual(tgt, self.dropout2(self.attend(self.cross_attn, x, memory, memory_mask, None)))
        return functional.residual(tgt, self.feed_forward(self.norm3(tgt), self.dropout3, self.dropout4))

    def backward(
        self,
        grad_output: Operand,
        tgt: Operand,
        memory: Operand,
        tgt_mask: Operand | None = None,
        memory_mask: Operand | None = None,
    ) -> tuple[Result, Result]:
        """Accumulates the parameters' gradients and returns those of `tgt` and `memory`.

        What is dropped is what the last call dropped.

        Args:
            grad_output: Gradient with respect to the result.
            tgt: As in the call.
            memory: As in the call.
            tgt_mask: As in the call; default none.
            memory_mask: As in the call; default none.

        Example:
            >>> import numpy as np
            >>> from grilly import nn
            >>> layer, x = nn.TransformerDecoderLayer(4, 1), np.ones((1, 3, 4), np.float32)
            >>> [gradient.shape for gradient in layer.backward(x, x, np.ones((1, 2, 4), np.float32))]
            [(1, 3, 4), (1, 2, 4)]
        """
        x = self.norm1(tgt)
        first = functional.residual(tgt, self.dropout1.backward(self.self_attn.again(x, x, tgt_mask, self.rope)))
        y = self.norm2(first)
        second = functional.residual(first, self.dropout2.backward(self.cross_attn.again(y, memory, memory_mask, None)))
        grad = self.feed_forward_backward(grad_output, self.norm3(second), self.dropout3, self.dropout4)
        grad = functional.residual(grad_output, self.norm3.backward(grad, second))
        dropped = self.dropout2.backward(grad)
        by_y, by_memory = self.attend_backward(dropped, self.cross_attn, y, memory, memory_mask, None)
        grad = functional.residual(grad, self.norm2.backward(by_y, first))
        both = self.attend_backward(self.dropout1.backward(grad), self.self_attn, x, x, tgt_mask, self.rope)
        return functional.residual(grad, self.norm1.backward(functional.residual(*both), tgt)), by_memory
