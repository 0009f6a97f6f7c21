"""Sizes of the transformers that are trained."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from grilly import _core
from grilly.closed import closed

__all__ = ["TransformerConfig"]


@closed()
@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of a Pre-LN transformer that predicts the next token.

    Layers `x + attention(norm(x))` and `x + feed_forward(norm(x))`, then a norm and a product with the output matrix;
    biases everywhere but in the output, GELU by tanh, layer norm with 1e-5.

    Args:
        vocab_size: Tokens of the vocabulary; 256 for bytes.
        d_model: Columns of the hidden state.
        num_layers: Layers.
        num_heads: Attention heads, a divisor of `d_model`.
        ffn_dim: Columns between the two products of the feed-forward part.
        max_seq_len: The longest sequence: rows of the table of positions.
        tied_output: Whether the output matrix is the table of the tokens; default False.
        dropout: Probability in training of an element to become zero, the others being divided by one minus it: of the
            embeddings, the weights of attention and what each part of a layer adds; default 0.
        positions: `"learned"` (default), a table added to the embeddings, or `"rotary"`, which turns queries and keys.
        bitlinear: Whether the products of layers are of int8 activations and ternary weights, as those of
            `nn.BitLinear`, one scale per token and one per matrix (W1.58A8); gradients go straight through the rounding
            to weights of float32. The output matrix and the tables stay as they are; default False.

    Example:
        >>> from grilly.train import TransformerConfig
        >>> [TransformerConfig.named(name).parameter_count() for name in ("tiny", "small", "medium")]
        [3323392, 19308544, 85842432]
    """

    vocab_size: int
    d_model: int
    num_layers: int
    num_heads: int
    ffn_dim: int
    max_seq_len: int
    tied_output: bool = False
    dropout: float = 0.0
    positions: str = "learned"
    bitlinear: bool = False

    @classmethod
    def tiny(cls) -> TransformerConfig:
        """3,323,392 parameters: 4 layers of 256 columns, sequences of 128.

        Example:
            >>> from grilly.train import TransformerConfig
            >>> TransformerConfig.tiny().d_model
            256
        """
        return cls.named("tiny")

    @classmethod
    def small(cls) -> TransformerConfig:
        """19,308,544 parameters: 6 layers of 512 columns, sequences of 256.

        Example:
            >>> from grilly.train import TransformerConfig
            >>> TransformerConfig.small().d_model
            512
        """
        return cls.named("small")

    @classmethod
    def medium(cls) -> TransformerConfig:
        """85,842,432 parameters: 12 layers of 768 columns, sequences of 512.

        Example:
            >>> from grilly.train import TransformerConfig
            >>> TransformerConfig.medium().d_model
            768
        """
        return cls.named("medium")

    @classmethod
    def named(cls, name: str) -> TransformerConfig:
        """The configuration called `"tiny"`, `"small"` or `"medium"`.

        Raises:
            InvalidArgumentError: Another name.

        Example:
            >>> from grilly.train import TransformerConfig
            >>> TransformerConfig.named("tiny") == TransformerConfig.tiny()
            True
        """
        return cls(**json.loads(_core.transformer_config(name)))

    def parameter_count(self) -> int:
        """The number of parameters.

        Raises:
            InvalidArgumentError: A size is out of range.

        Example:
            >>> from grilly.train import TransformerConfig
            >>> TransformerConfig(256, 256, 2, 4, 1024, 128).parameter_count()
            1743872
        """
        return _core.parameter_count(json.dumps(asdict(self)))
