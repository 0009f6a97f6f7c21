"""Byte buffers on the device, for upstream's `Compute.create_buffer` and related methods."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly import _core
from grilly.closed import closed
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnusableError
from grilly.resources import need

__all__ = ["Buffer", "Core"]


@closed()
class Buffer:
    """Bytes on a device; returned twice in place of upstream's pair of buffer and memory.

    Args:
        engine: The engine that holds the bytes.
        data: A NumPy array, bytes, or a number of bytes, which are then 0.

    Example:
        >>> import grilly
        >>> buffer, memory = grilly.Compute().create_buffer(8)
        >>> buffer.nbytes
        8
    """

    def __init__(self, engine: _core.Engine, data: Any) -> None:
        self._engine = engine
        if is_size(data):
            need(size_of(data), np.uint8, "a buffer")
        held = as_bytes(data) if not is_size(data) else np.zeros(size_of(data), np.uint8)
        self.nbytes = int(held.size)
        self._array: _core.Array | None = engine.upload(as_words(held))

    def write(self, data: Any) -> None:
        """Overwrites the first bytes with `data`.

        Raises:
            InvalidArgumentError: `data` is larger than the buffer.

        Example:
            >>> import grilly, numpy as np
            >>> buffer, _ = grilly.Compute().create_buffer(8)
            >>> buffer.write(np.array([2.0], np.float32))
            >>> buffer.read(4).tolist()
            [2.0]
        """
        found = as_bytes(data)
        if found.size > self.nbytes:
            raise InvalidArgumentError(f"the data has {found.size} bytes, and the buffer {self.nbytes}")
        held = self.read(self.nbytes, np.uint8).copy()
        held[: found.size] = found
        self._array = self._engine.upload(as_words(held))

    def read(self, size: int | None = None, dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
        """The first `size` bytes as an array of `dtype`; default all.

        Raises:
            InvalidArgumentError: More bytes than there are, or not a whole number of elements.

        Example:
            >>> import grilly, numpy as np
            >>> buffer, _ = grilly.Compute().create_buffer(np.arange(3, dtype=np.int32))
            >>> buffer.read(dtype=np.int32).tolist()
            [0, 1, 2]
        """
        if self._array is None:
            raise UnusableError("the buffer was freed by cleanup()")
        count = self.nbytes if size is None else size_of(size)
        if count > self.nbytes:
            raise InvalidArgumentError(f"{count} bytes are asked for, and the buffer has {self.nbytes}")
        if count % np.dtype(dtype).itemsize:
            raise InvalidArgumentError(f"{count} bytes are not a whole number of {np.dtype(dtype)}")
        return self._array.numpy().view(np.uint8)[:count].view(dtype)

    def free(self) -> None:
        """Frees the device memory.

        Example:
            >>> import grilly
            >>> buffer, _ = grilly.Compute().create_buffer(8)
            >>> buffer.free()
        """
        self._array = None

    def __repr__(self) -> str:
        return f"Buffer({self.nbytes} bytes{', freed' if self._array is None else ''})"


def is_size(data: Any) -> bool:
    return hasattr(data, "__index__") and not isinstance(data, np.ndarray)


def as_buffer(given: Any) -> Buffer:
    if not isinstance(given, Buffer):
        raise InvalidTypeError(f"a buffer of create_buffer is expected, and not a {type(given).__name__}")
    return given


def size_of(size: Any) -> int:
    count = int(size.__index__())
    if count < 0:
        raise InvalidArgumentError(f"the size is {count}, expected at least 0")
    return count


def as_bytes(data: Any) -> npt.NDArray[np.uint8]:
    if isinstance(data, bytes | bytearray | memoryview):
        return np.frombuffer(data, np.uint8)
    found = np.asarray(data)
    if found.dtype.kind not in "fbiuc":
        raise InvalidTypeError(f"data is of type {found.dtype}, expected numbers or bytes")
    return np.frombuffer(found.tobytes(), np.uint8)


def as_words(held: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """Whole words of 4 bytes, the last one zero-padded."""
    return np.array(np.frombuffer(held.tobytes() + b"\0" * (-held.size % 4), np.uint32))


@closed()
class Core:
    """`Compute.core`: buffers on the default device.

    Example:
        >>> import grilly
        >>> grilly.Compute().core.device == grilly.Compute().device
        True
    """

    def __init__(self, engine: _core.Engine) -> None:
        self._engine = engine
        self._buffers: list[Buffer] = []

    @property
    def device(self) -> str:
        """The device's name."""
        return self._engine.device

    @property
    def device_properties(self) -> SimpleNamespace:
        """Upstream's record of the device, with its name as `deviceName`; `grilly.info()` has the rest."""
        return SimpleNamespace(deviceName=self._engine.device)

    def create_buffer(self, data_or_size: Any, usage: str = "storage") -> tuple[Buffer, Buffer]:
        """Creates a buffer on the device: the bytes of an array or a bytes object, or a number of zero bytes.

        Args:
            data_or_size: A NumPy array, bytes, or a whole number.
            usage: Upstream's option, without effect: every buffer is a storage buffer.

        Returns:
            The buffer twice, in place of upstream's handles of buffer and memory.

        Raises:
            InvalidTypeError: Neither numbers nor bytes.

        Example:
            >>> import grilly
            >>> buffer, memory = grilly.Compute().core.create_buffer(b"12345")
            >>> memory.nbytes
            5
        """
        buffer = Buffer(self._engine, data_or_size)
        self._buffers.append(buffer)
        return buffer, buffer

    def upload_buffer(self, buffer: Buffer, memory: Buffer, data: Any) -> None:
        """Writes `data` to the start of a buffer.

        Raises:
            InvalidArgumentError: The data is larger than the buffer.

        Example:
            >>> import grilly, numpy as np
            >>> core = grilly.Compute().core
            >>> buffer, memory = core.create_buffer(4)
            >>> core.upload_buffer(buffer, memory, np.array([1.5], np.float32))
            >>> core.read_buffer(memory).tolist()
            [1.5]
        """
        as_buffer(buffer).write(data)

    def read_buffer(
        self, memory: Buffer, size: int | None = None, dtype: npt.DTypeLike = np.float32
    ) -> npt.NDArray[Any]:
        """The first `size` bytes of a buffer as an array; default all, as float32.

        Raises:
            InvalidArgumentError: More bytes than there are, or not a whole number of elements.

        Example:
            >>> import grilly, numpy as np
            >>> core = grilly.Compute().core
            >>> core.read_buffer(core.create_buffer(np.ones(2, np.float32))[1], size=4).tolist()
            [1.0]
        """
        return as_buffer(memory).read(size, dtype)

    def cleanup(self) -> None:
        """Frees the buffers created by this object.

        Example:
            >>> import grilly
            >>> grilly.Compute().core.cleanup()
        """
        for buffer in self._buffers:
            buffer.free()
        self._buffers.clear()
