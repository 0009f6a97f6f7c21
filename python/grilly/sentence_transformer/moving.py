"""Another element type, another device: the weights are loaded again into the same object."""

from typing import Any, TypeVar

from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from grilly.inputs import DTYPES, check_dtype, device_and_dtype, device_name
from grilly.nearest import nearest
from grilly.sentence_transformer.loaded import Loaded

__all__ = ["Moving"]

Self = TypeVar("Self", bound="Moving")


class Moving(Loaded):
    """A model that can be reloaded; calls in flight in other threads finish with the old weights."""

    def to(
        self: Self, *arguments: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False, **more: Any
    ) -> Self:
        """The same object on another device, in another element type, or both.

        The weights are read again from the model's files, so `half().float()` restores the original numbers. Until it
        returns, old and new weights are both in memory.

        Args:
            *arguments: A device, an element type, both in that order, or a tensor that has them.
            device: As in the constructor: `"cpu"`, `"vulkan:1"`, `"cuda"`, a torch device, a number.
            dtype: `"float32"`, `"float16"`, `"bfloat16"` or `"int8"`, or NumPy's or torch's type.
            non_blocking: No effect.
            **more: `copy` and `memory_format` have no effect.

        Returns:
            The model itself.

        Raises:
            InvalidArgumentError: Neither a device nor a supported type.
            UnusableError: After `close()`.

        Source: `torch.nn.Module.to`.

        Example:
            >>> model.to("cpu").backend
            'cpu'
        """
        unknown = set(more) - {"copy", "memory_format"}
        if unknown:
            meant = nearest(min(unknown), ("device", "dtype", "non_blocking", "copy", "memory_format"))
            raise InvalidArgumentError(f"to() does not know the keyword {min(unknown)!r}{meant}")
        if len(arguments) > 3:
            raise InvalidTypeError(f"to() takes a device and an element type, not {len(arguments)} arguments")
        if any(isinstance(own, str) and own == "auto" for own in arguments):
            raise InvalidArgumentError("to('auto') may mean a device or an element type; name it: to(device='auto')")
        device, dtype = device_and_dtype(arguments[:2], device, dtype)
        self._reload(None if device is None else device_name(device), None if dtype is None else concrete(dtype))
        return self

    def half(self: Self) -> Self:
        """Weights in float16: `to("float16")`.

        Example:
            >>> from grilly import SentenceTransformer
            >>> with SentenceTransformer("all-MiniLM-L6-v2", device="cpu").half() as narrow:
            ...     narrow.dtype, narrow.encode("A cat.").dtype.name
            ('float16', 'float16')
        """
        return self.to(dtype="float16")

    def bfloat16(self: Self) -> Self:
        """Weights in bfloat16: `to("bfloat16")`.

        Example:
            >>> from grilly import SentenceTransformer
            >>> with SentenceTransformer("all-MiniLM-L6-v2", device="cpu").bfloat16() as narrow:
            ...     narrow.dtype, narrow.encode("A cat.").dtype.name
            ('bfloat16', 'float32')
        """
        return self.to(dtype="bfloat16")

    def float(self: Self) -> Self:
        """Weights in float32: `to("float32")`.

        Example:
            >>> model.float().dtype
            'float32'
        """
        return self.to(dtype="float32")

    def cpu(self: Self) -> Self:
        """On the CPU: `to("cpu")`.

        Example:
            >>> model.cpu().backend
            'cpu'
        """
        return self.to(device="cpu")

    def cuda(self: Self, device: Any = None) -> Self:
        """Moves to the best Vulkan device, or to the CPU with a warning if there is none; or to number `device`.

        Example:
            >>> from grilly import SentenceTransformer
            >>> with SentenceTransformer("all-MiniLM-L6-v2", device="cpu").cuda() as moved:
            ...     moved.backend in ("vulkan", "cpu")
            True
        """
        return self.to(device="cuda" if device is None else device)

    def eval(self: Self) -> Self:
        """The model itself, which is always ready to encode.

        Example:
            >>> model.eval() is model
            True
        """
        return self

    def train(self: Self, mode: bool = True) -> Self:
        """The model itself with `mode=False`; training is not part of this package.

        Raises:
            UnsupportedError: With `mode=True`.

        Example:
            >>> model.train(False) is model
            True
        """
        if mode:
            raise UnsupportedError(
                "train(): training is not part of this package; train with sentence-transformers, save the model, and "
                "load its folder here"
            )
        return self


def concrete(dtype: Any) -> str:
    """The name of an element type."""
    name = check_dtype(dtype)
    if name == "auto":
        raise InvalidArgumentError(f"dtype is 'auto', expected one of {', '.join(DTYPES)}")
    return name
