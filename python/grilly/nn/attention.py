"""Attention layers."""

from __future__ import annotations

from typing import Any

from grilly import functional
from grilly.errors import InvalidArgumentError
from grilly.functional.attending import attend_by_heads
from grilly.functional.attending_gradients import attend_by_heads_backward
from grilly.functional.checks import fraction, whole
from grilly.functional.dispatch import Operand, Result
from grilly.nn.layers import Dropout, Linear
from grilly.nn.module import Module

__all__ = ["FlashAttention2", "MultiheadAttention", "RoPE"]


def head_width(name: str, embed_dim: int, num_heads: int) -> int:
    columns, heads = whole(name, "embed_dim", embed_dim), whole(name, "num_heads", num_heads)
    if columns % heads:
        raise InvalidArgumentError(f"{name}: embed_dim ({columns}) must be divisible by num_heads ({heads})")
    return columns // heads


def turning(rope: RoPE | None) -> tuple[float, float] | None:
    return None if rope is None else (rope.base, rope.scaling)


class MultiheadAttention(Module):
    """Multi-head attention with input and output projections.

    Args:
        embed_dim: Columns.
        num_heads: Heads; divides `embed_dim`.
        dropout: Dropout probability of the result in training mode; default 0.

    Attributes:
        q_proj, k_proj, v_proj, out_proj: `Linear(embed_dim, embed_dim)`.

    Masks are `(B, Sk)` or broadcast to `(B, H, Sq, Sk)`, with two axes also `(Sq, Sk)`, with three `(B, Sq, Sk)`. Bool
    and integers keep where they are not 0, floats are added to the scores; a query that sees nothing gets zeros. An
    ambiguous mask of two axes is rejected. None means no mask: every position attends to every other.

    Source: upstream's `nn.MultiheadAttention`, which was causal if a mask of None was passed positionally.

    Example:
        >>> import numpy as np
        >>> from grilly import nn
        >>> x = np.ones((2, 5, 8), np.float32)
        >>> output, weights = nn.MultiheadAttention(8, 2)(x, x, x)
        >>> output.shape, weights.shape
        ((2, 5, 8), (2, 2, 5, 5))
    """

    q_proj: Linear
    k_proj: Linear
    v_proj: Linear
    out_proj: Linear

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.head_dim = head_width("MultiheadAttention", embed_dim, num_heads)
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, Linear(embed_dim, embed_dim))
        self.result_dropout = Dropout(fraction("MultiheadAttention", "dropout", dropout))

    def forward(
        self,
        query: Operand,
        key: Operand,
        value: Operand,
        mask: Operand | None = None,
        *,
        causal: bool = False,
        need_weights: bool = True,
        rope: RoPE | None = None,
    ) -> tuple[Result, Result | None]:
        """`(output, weights)` of shapes `(B, Sq, D)` and `(B, H, Sq, Sk)`.

        Args:
            query: `(B, Sq, D)`.
            key: `(B, Sk, D)`.
            value: `(B, Sk, D)`.
            mask: Default none.
            causal: Whether keys after the query's position are masked; default False.
            need_weights: Whether weights are returned; without them and a mask the fused kernel runs. Default True.
            rope: Rotates queries and keys by their positions; default none.

        Example:
            >>> import numpy as np
            >>> from grilly import nn
            >>> x = np.ones((1, 3, 4), np.float32)
            >>> nn.MultiheadAttention(4, 2).forward(x, x, x, need_weights=False)[1] is None
            True
        """
        projected = (self.q_proj(query), self.k_proj(key), self.v_proj(value))
        output, weights = attend_by_heads(
            "MultiheadAttention", projected, self.num_heads, self.head_dim,
            mask=mask, causal=causal, need_weights=need_weights, rope=turning(rope),
        )  # fmt: skip
        joined = functional.attention_concat_heads(output)
        return self.result_dropout(self.out_proj(joined)), weights

    def joined(self, projected: tuple[Result, Result, Result], **options: Any) -> Result:
        """The heads side by side, which `out_proj` takes."""
        output, _ = attend_by_heads("MultiheadAttention", projected, self.num_heads, self.head_dim, **options)
        return functional.attention_concat_heads(output)

    def again(self, query: Operand, memory: Operand, mask: Operand | None, rope: RoPE | None) -> Result:
        """The output of the last call, on these."""
        projected = (self.q_proj(query), self.k_proj(memory), self.v_proj(memory))
        # Dropout is linear: its derivative drops the same elements.
        return self.result_dropout.backward(self.out_proj(self.joined(projected, mask=mask, rope=turning(rope))))

    def backward(
        self,
        grad_output: Operand,
        query: Operand,
        key: Operand,
        value: Operand,
        mask: Operand | None = None,
        *,
        causal: bool = False,
        rope: RoPE | None = None,
    ) -> tuple[Result, Result, Result]:
        """Accumulates the parameters' gradients and returns those of query, key and value.

        Args:
            grad_output: Gradient with respect to the output, `(B, Sq, D)`.
            query: As in the call; so are the others.
            key: `(B, Sk, D)`.
            value: `(B, Sk, D)`.
            mask: Default none.
            causal: Default False.
            rope: Default none.

        The dropout of the result is that of the last call.

        Example:
            >>> import numpy as np
            >>> from grilly import nn
            >>> layer, x = nn.MultiheadAttention(4, 1), np.ones((1, 3, 4), np.float32)
            >>> [gradient.shape for gradient in layer.backward(x, x, x, x)], layer.out_proj.bias.grad.tolist()
            ([(1, 3, 4), (1, 3, 4), (1, 3, 4)], [3.0, 3.0, 3.0, 3.0])
        """
        layers = (self.q_proj, self.k_proj, self.v_proj)
        inputs = (query, key, value)
        projected = (self.q_proj(query), self.k_proj(key), self.v_proj(value))
        grad = self.result_dropout.backward(grad_output)
        options: dict[str, Any] = {"mask": mask, "causal": causal, "rope": turning(rope)}
        grad = self.out_proj.backward(grad, self.joined(projected, **options))
        sizes = (self.num_heads, self.head_dim)
        gradients = attend_by_heads_backward("MultiheadAttention", grad, projected, *sizes, **options)
        by_q, by_k, by_v = (
            layer.backward(gradient, x) for layer, gradient, x in zip(layers, gradients, inputs, strict=True)
        )
        return by_q, by_k, by_v

    def __repr__(self) -> str:
        return f"MultiheadAttention(embed_dim={self.embed_dim}, num_heads={self.num_heads}, dropout={self.dropout})"


class FlashAttention2(Module):
    """Multi-head attention without projections, by the fused kernel.

    Args:
        embed_dim: Columns.
        num_heads: Heads; divides `embed_dim`.
        use_rope: Whether queries and keys are rotated by their positions; default False.

    Source: upstream's `nn.FlashAttention2`, which returned float64 and masked queries in place of keys.

    Example:
        >>> import numpy as np
        >>> from grilly import nn
        >>> x = np.ones((2, 5, 8), np.float32)
        >>> nn.FlashAttention2(8, 2)(x, x, x).shape
        (2, 5, 8)
    """

    def __init__(self, embed_dim: int, num_heads: int, use_rope: bool = False) -> None:
        super().__init__()
        self.head_dim = head_width("FlashAttention2", embed_dim, num_heads)
        self.embed_dim, self.num_heads, self.use_rope = embed_dim, num_heads, use_rope

    def forward(
        self, q: Operand, k: Operand, v: Operand, mask: Operand | None = None, *, causal: bool = False
    ) -> Result:
        """`(B, Sq, D)` of queries `(B, Sq, D)`, keys and values `(B, Sk, D)`; masks as in `MultiheadAttention`.

        Example:
            >>> import numpy as np
            >>> from grilly import nn
            >>> x = np.ones((1, 3, 4), np.float32)
            >>> bool((nn.FlashAttention2(4, 2).forward(x, x, x) == 1).all())
            True
        """
        rope = (10000.0, 1.0) if self.use_rope else None
        output, _ = attend_by_heads(
            "FlashAttention2", (q, k, v), self.num_heads, self.head_dim, mask=mask, causal=causal, rope=rope
        )
        return functional.attention_concat_heads(output)

    def backward(
        self,
        grad_output: Operand,
        q: Operand,
        k: Operand,
        v: Operand,
        mask: Operand | None = None,
        *,
        causal: bool = False,
    ) -> tuple[Result, Result, Result]:
        """The gradients of queries, keys and values.

        Args:
            grad_output: Gradient with respect to the result.
            q: As in the call; so are the others.
            k: `(B, Sk, D)`.
            v: `(B, Sk, D)`.
            mask: Default none.
            causal: Default False.

        Example:
            >>> import numpy as np
            >>> from grilly import nn
            >>> x = np.ones((1, 2, 4), np.float32)
            >>> nn.FlashAttention2(4, 1).backward(x, x, x, x)[2].round(4).tolist()
            [[[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]]
        """
        rope = (10000.0, 1.0) if self.use_rope else None
        sizes = (self.num_heads, self.head_dim)
        return attend_by_heads_backward(
            "FlashAttention2", grad_output, (q, k, v), *sizes, mask=mask, causal=causal, rope=rope
        )

    def __repr__(self) -> str:
        return f"FlashAttention2(embed_dim={self.embed_dim}, num_heads={self.num_heads}, use_rope={self.use_rope})"


class RoPE(Module):
    """`functional.apply_rope` with fixed options.

    Args:
        head_dim: Columns of a head; even.
        max_seq_len: Upstream's size of a table, without effect: any position works.
        base: Default 10000.
        scaling: Divides the positions; default 1.
        use_precomputed: Upstream's option, without effect.

    Source: upstream's `nn.RoPE`.

    Example:
        >>> import numpy as np
        >>> from grilly import nn
        >>> nn.RoPE(4)(np.ones((2, 5, 3, 4), np.float32)).shape
        (2, 5, 3, 4)
    """

    def __init__(
        self,
        head_dim: int,
        max_seq_len: int = 512,
        base: float = 10000.0,
        scaling: float = 1.0,
        use_precomputed: bool = True,
    ) -> None:
        super().__init__()
        if whole("RoPE", "head_dim", head_dim) % 2:
            raise InvalidArgumentError(f"RoPE: head_dim is {head_dim}, expected an even number")
        self.head_dim, self.max_seq_len, self.base, self.scaling = head_dim, max_seq_len, base, scaling
        self.use_precomputed = use_precomputed

    def forward(self, x: Operand, position_ids: Operand | None = None) -> Result:
        """Rotates `(B, S, H, D)` by `position_ids`, `(S,)` or `(B, S)`; default 0, 1, 2 ...

        Example:
            >>> import numpy as np
            >>> from grilly import nn
            >>> x = np.ones((1, 1, 1, 2), np.float32)
            >>> nn.RoPE(2).forward(x, [[0]]).tolist()
            [[[[1.0, 1.0]]]]
        """
        return functional.apply_rope(x, position_ids, self.base, self.scaling)

    def backward(self, grad_output: Operand, x: Operand | None = None, position_ids: Operand | None = None) -> Result:
        """The gradient of `x`, whose values do not matter, with the positions of the call.

        Example:
            >>> import numpy as np
            >>> from grilly import nn
            >>> nn.RoPE(2).backward(np.ones((1, 1, 1, 2), np.float32)).tolist()
            [[[[1.0, 1.0]]]]
        """
        return functional.apply_rope_backward(grad_output, position_ids, self.base, self.scaling)

    def __repr__(self) -> str:
        return f"RoPE(head_dim={self.head_dim}, base={self.base}, scaling={self.scaling})"
