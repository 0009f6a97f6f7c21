"""The parts of `Compute`: upstream's methods on `grilly.functional`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

from grilly import functional
from grilly.closed import closed
from grilly.compat.upstream.names import missing
from grilly.functional.attending import attend_by_heads, key_mask
from grilly.functional.dispatch import SHADERS_OF, Operand, Result, floats

__all__ = ["Attention", "Learning", "Part", "Pooling"]


@closed()
class Part:
    """A part of `Compute`: its methods run the shaders registered for the architecture that `Compute` is set to.

    Unsupported upstream names raise an error that says so.

    Args:
        architecture: A function that returns the architecture of the owning `Compute`.

    Example:
        >>> import grilly
        >>> grilly.Compute().pooling.maxpool2d
        Traceback (most recent call last):
        ...
        grilly.errors.UnsupportedNameError: maxpool2d is part of upstream grilly's convolutions and not of this
        package: torch.nn has them
    """

    name = "part"

    def __init__(self, architecture: Callable[[], str | None]) -> None:
        self._architecture = architecture
        self._methods: dict[str, Any] = {}

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name.startswith("_") or not callable(value):
            return value
        if name in self._methods:
            return self._methods[name]

        @functools.wraps(value)
        def with_shaders(*arguments: Any, **options: Any) -> Any:
            token = SHADERS_OF.set(self._architecture() or "")
            try:
                return value(*arguments, **options)
            finally:
                SHADERS_OF.reset(token)

        self._methods[name] = with_shaders
        return with_shaders

    def __getattr__(self, name: str) -> NoReturn:
        raise missing(f"Compute.{self.name}", name)

    def __repr__(self) -> str:
        return f"<Compute.{self.name}>"


class Attention(Part):
    """`Compute.attention`; the layout is (batch, position, head, column), scores are (batch, head, query, key).

    Example:
        >>> import grilly
        >>> sorted(name for name in vars(type(grilly.Compute().attention)) if name.startswith("attention"))
        ['attention_concat_heads', 'attention_mask', 'attention_output', 'attention_scores']
    """

    name = "attention"
    attention_scores = staticmethod(functional.attention_scores)
    attention_mask = staticmethod(functional.attention_mask)
    attention_concat_heads = staticmethod(functional.attention_concat_heads)
    apply_rope = staticmethod(functional.apply_rope)

    def attention_output(
        self,
        attention_weights: Operand,
        values: Operand,
        num_heads: int | None = None,
        head_dim: int | None = None,
        **options: Any,
    ) -> Result:
        """`functional.attention_output` with the shader of `Compute.architecture`.

        Example:
            >>> import grilly
            >>> grilly.Compute().attention.attention_output([[[[1.0]]]], [[[[2.0]]]], 1, 1).tolist()
            [[[[2.0]]]]
        """
        given = {"architecture": self._architecture(), **options}
        return functional.attention_output(attention_weights, values, num_heads, head_dim, **given)

    def flash_attention2(
        self,
        queries: Operand,
        keys: Operand,
        values: Operand,
        num_heads: int | None = None,
        head_dim: int | None = None,
        tile_size_q: int = 64,
        tile_size_k: int = 64,
        scale: float | None = None,
        mask: Operand | None = None,
        causal: bool = False,
    ) -> Result:
        """Complete attention: `softmax(scale q k^T + mask) v`, head by head.

        Args:
            queries: `(B, Sq, H, D)` or `(B, Sq, H * D)`.
            keys: `(B, Sk, G, D)` or `(B, Sk, G * D)`; `G` divides `H`.
            values: As `keys`.
            num_heads: `H`; default as in `queries`, which then has 4 axes.
            head_dim: `D`; default likewise.
            tile_size_q: Upstream's option, without effect: tiles are chosen for the device.
            tile_size_k: Likewise.
            scale: Default `1 / sqrt(D)`.
            mask: `(B, Sk)`, not 0 where a key is kept and never below, or a mask that broadcasts to `(B, H, Sq, Sk)` as
                in `functional.attention`; default none.
            causal: Whether keys after the query's position are masked; default False.

        Returns:
            `(B, Sq, H, D)`.

        Raises:
            InvalidArgumentError: Incompatible shapes, or a `(B, Sk)` mask with negative numbers.

        Example:
            >>> import grilly
            >>> grilly.Compute().attention.flash_attention2([[[1.0]]], [[[1.0]]], [[[3.0]]], 1, 1).tolist()
            [[[[3.0]]]]
        """
        if mask is not None:
            first, second = floats(queries, "queries").shape, floats(keys, "keys").shape
            mask = (
                key_mask("flash_attention2", mask, first[0], second[1]) if len(first) > 2 and len(second) > 2 else mask
            )
        operands = (queries, keys, values)
        return attend_by_heads(
            "flash_attention2", operands, num_heads, head_dim, scale=scale, mask=mask, causal=causal
        )[0]


class Pooling(Part):
    """`Compute.pooling`.

    Example:
        >>> import grilly
        >>> grilly.Compute().pooling.mean_pool([[[1.0], [3.0]]]).tolist()
        [[2.0]]
    """

    name = "pooling"
    mean_pool = staticmethod(functional.mean_pool)


class Learning(Part):
    """`Compute.learning`.

    Example:
        >>> import grilly
        >>> grilly.Compute().learning.embedding_lookup([1, 0], [[1.0], [2.0]]).tolist()
        [[2.0], [1.0]]
    """

    name = "learning"
    adam_update = staticmethod(functional.adam_update)
    embedding_backward = staticmethod(functional.embedding_backward)
    whitening_transform = staticmethod(functional.whitening_transform)

    def embedding_lookup(self, token_ids: Operand, embedding_table: Operand) -> Result:
        """Rows of a table, ids first: `embedding_table[token_ids]`.

        Raises:
            IndexOutOfRangeError: An id outside the table.

        Example:
            >>> import grilly
            >>> grilly.Compute().learning.embedding_lookup([[0]], [[5.0]]).shape
            (1, 1, 1)
        """
        return functional.embedding_lookup(embedding_table, token_ids)
