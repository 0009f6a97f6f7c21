"""Arguments of training as the library takes them; texts and tokens of a model, and text that it generates."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from grilly import _core
from grilly.closed import closed
from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.inputs import as_count, need_type

__all__ = ["TextModel", "as_bytes", "as_integers", "as_json", "as_plain", "as_windows"]


def as_bytes(text: Any) -> bytes:
    """The bytes of a text.

    Example:
        >>> from grilly.train.text import as_bytes
        >>> as_bytes("é!")
        b'\\xc3\\xa9!'
    """
    if isinstance(text, str):
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(
                f"the text holds a lone surrogate (half a character) at {error.start}; "
                'text.encode("utf-8", "replace") puts a question mark in its place'
            ) from None
    need_type(text, bytes | bytearray, "the text", "bytes or str")
    return bytes(text)


def as_integers(values: Any, name: str, axes: int) -> np.ndarray:
    """An array of integers from 0 to 2^32 - 1 with so many axes.

    Example:
        >>> from grilly.train.text import as_integers
        >>> as_integers([3, 1], "tokens", 1).tolist()
        [3, 1]
    """
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError):
        raise InvalidArgumentError(f"{name} has rows of unequal lengths, expected {axes} axes of integers") from None
    if array.size == 0:
        array = array.astype(np.uint32)
    if array.ndim != axes or array.dtype.kind not in "iu":
        raise InvalidArgumentError(f"{name} has shape {array.shape} of {array.dtype}, expected {axes} axes of integers")
    if array.size and not 0 <= int(array.min()) <= int(array.max()) < 2**32:
        raise InvalidArgumentError(f"{name} has {array.min()} to {array.max()}, expected integers from 0 below 2^32")
    return array


def as_windows(tokens: Any) -> list[list[int]]:
    """Windows of tokens as lists.

    Example:
        >>> from grilly.train.text import as_windows
        >>> as_windows(((1, 2), (3, 4)))
        [[1, 2], [3, 4]]
    """
    windows: list[list[int]] = as_integers(tokens, "tokens", 2).tolist()
    return windows


def as_plain(value: Any) -> Any:
    """A NumPy number as Python's, for JSON.

    Example:
        >>> import numpy as np
        >>> from grilly.train.text import as_plain
        >>> as_plain(np.int64(3))
        3
    """
    if isinstance(value, np.generic):
        return value.item()
    raise InvalidTypeError(f"a setting is of type {type(value).__name__}, expected numbers, None and plain containers")


def as_json(owner: str, settings: Mapping[str, Any]) -> str:
    """Settings as JSON, which has neither NaN nor infinity: the setting that has one is named.

    Raises:
        InvalidArgumentError: A number that is not finite, or a container in itself.
        InvalidTypeError: A value of another type.

    Example:
        >>> from grilly.train.text import as_json
        >>> as_json("Trainer", {"betas": [0.9, float("inf")]})
        Traceback (most recent call last):
        grilly.errors.InvalidArgumentError: Trainer: betas[1] is inf, expected a finite number
    """
    for name, value in settings.items():
        _need_finite(f"{owner}: {name}", value, levels=8)
    return json.dumps(settings, default=as_plain)


def _need_finite(name: str, value: Any, levels: int) -> None:
    if levels == 0:
        raise InvalidArgumentError(f"{name} is nested too deeply, or in itself")
    if isinstance(value, Mapping):
        for key, item in value.items():
            _need_finite(f"{name}[{key!r}]", item, levels - 1)
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            _need_finite(f"{name}[{place}]", item, levels - 1)
    elif isinstance(value, float | np.floating) and not np.isfinite(value):
        raise InvalidArgumentError(f"{name} is {float(value)}, expected a finite number")


@closed()
class TextModel:
    """What a model does with texts: it encodes, decodes and continues them.

    Example:
        >>> from grilly.train import Trainer
        >>> from grilly.train.text import TextModel
        >>> issubclass(Trainer, TextModel)
        True
    """

    _core: _core.Trainer

    def generate(
        self,
        prompt: Any,
        count: int,
        *,
        seed: int = 0,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
    ) -> Any:
        """Tokens that continue a prompt, of which the model reads the last `max_seq_len`.

        Args:
            prompt: At least one token: integers, or bytes or a str, whose tokens are taken.
            count: Tokens to add.
            seed: Token `i` depends on the seed, `i` and what precedes it alone; default 0.
            temperature: Divisor of the logits; 0 for the most probable token. Default 1.
            top_k: Only so many of the most probable tokens; default all.
            top_p: Only the most probable tokens that together have this probability; default 1, all.

        Returns:
            bytes for a prompt of bytes or a str, else a list of integers; without the prompt.

        Raises:
            InvalidArgumentError: An empty prompt, or a count or setting out of range.
            IndexOutOfRangeError: A token outside the vocabulary.

        Example:
            >>> from grilly.train import Trainer, TransformerConfig
            >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
            >>> len(Trainer(config, device="cpu").generate("In the beginning", 3))
            3
        """
        count = as_count(count, "count")
        is_text = isinstance(prompt, bytes | bytearray | str)
        tokens = self.encode(prompt) if is_text else as_integers(prompt, "prompt", 1).tolist()
        sampling = {"seed": seed, "temperature": temperature, "top_k": top_k, "top_p": top_p}
        found = self._core.generate(tokens, count, as_json("generate", sampling))
        return self.decode(found) if is_text else found

    def encode(self, text: bytes | str) -> list[int]:
        """The tokens of a text: its bytes, or with tokenizer `"bpe"` those that the run has learned.

        Raises:
            InvalidArgumentError: Bytes that are not UTF-8, with `"bpe"`.

        Example:
            >>> from grilly.train import Trainer, TransformerConfig
            >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
            >>> Trainer(config, device="cpu").encode("é!")
            [195, 169, 33]
        """
        return self._core.encode(as_bytes(text))

    def decode(self, tokens: Any) -> bytes:
        """The bytes of tokens, which may end within a character.

        Raises:
            IndexOutOfRangeError: A token that is not in the vocabulary.

        Example:
            >>> from grilly.train import Trainer, TransformerConfig
            >>> config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
            >>> Trainer(config, device="cpu").decode([195, 169, 33]).decode()
            'é!'
        """
        return self._core.decode(as_integers(tokens, "tokens", 1).tolist())
