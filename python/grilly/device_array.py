"""`VulkanTensor`: an array on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex, cast, overload

import numpy as np
import numpy.typing as npt

from grilly import _core
from grilly.closed import closed
from grilly.errors import GrillyError, InvalidArgumentError, InvalidTypeError
from grilly.operands import as_floats, as_ids, host_array
from grilly.unusable import Unusable

__all__ = ["VulkanTensor"]


@closed()
class VulkanTensor:
    """An array on a device: contiguous, immutable, and freed with its last reference (`del`).

    Functions of `grilly.functional` and modules of `grilly.nn` that receive one run on its device and return another; a
    chain of them transfers no data and is recorded as one submission. NumPy functions accept one too and read a copy on
    the host. `copy` returns the tensor itself; unpickling restores it on the default device, or on the CPU if it was
    there.

    Args:
        data: As for `to_vulkan`.
        device: `"vulkan"`, `"vulkan:N"` or `"cpu"`; default `"vulkan"`.

    Raises:
        InvalidTypeError: The data is not numbers.

    Source: upstream's class of the same name, which held a NumPy array and a buffer; this one holds only the buffer.

    Example:
        >>> import grilly, numpy as np
        >>> x = grilly.VulkanTensor(np.array([[1.0, -2.0]]), device="cpu")
        >>> x.shape, x.dtype, x.numpy().tolist()
        ((1, 2), dtype('float32'), [[1.0, -2.0]])
    """

    __slots__ = ("__weakref__", "_array", "_integers")
    _array: _core.Array
    _integers: npt.NDArray[np.int32] | None

    def __init__(self, data: Any, device: str = "vulkan") -> None:
        made = placed(data, device)
        self._array, self._integers = made._array, made._integers

    @property
    def shape(self) -> tuple[int, ...]:
        """Axes, slowest first."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's float32, float16, int32 for ids and masks, or int8 and uint8 of quantised arrays."""
        return np.dtype(self._array.dtype)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._array.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self._array.shape, dtype=np.int64))

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._array.nbytes

    @property
    def device(self) -> str:
        """`"vulkan"` or `"cpu"`: where the elements are."""
        return self._array.engine.backend

    @property
    def device_name(self) -> str:
        """The device's name."""
        return self._array.engine.device

    def numpy(self) -> npt.NDArray[Any]:
        """The elements in a new NumPy array; waits until they are computed.

        Example:
            >>> import grilly
            >>> grilly.to_vulkan([1, 2], "cpu").numpy()
            array([1, 2], dtype=int32)
        """
        return self._array.numpy()

    def item(self) -> float:
        """The one element of an array of size 1, as a Python number.

        Raises:
            InvalidArgumentError: There are more elements, or none.

        Example:
            >>> import grilly
            >>> grilly.to_vulkan(2.5, "cpu").item()
            2.5
        """
        if self.size != 1:
            raise InvalidArgumentError(f"item: the array has {self.size} elements, expected 1")
        value: float = self.numpy().item()
        return value

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers.

        Example:
            >>> import grilly
            >>> grilly.to_vulkan([[1.0], [2.0]], "cpu").tolist()
            [[1.0], [2.0]]
        """
        return self.numpy().tolist()

    @overload
    def reshape(self, shape: Sequence[SupportsIndex], /) -> VulkanTensor: ...
    @overload
    def reshape(self, *shape: SupportsIndex) -> VulkanTensor: ...
    def reshape(self, *shape: Any) -> VulkanTensor:
        """The same elements in another shape, which shares their memory; one axis may be -1.

        Raises:
            InvalidArgumentError: The shape has a different number of elements.

        Example:
            >>> import grilly
            >>> grilly.to_vulkan([[1.0, 2.0], [3.0, 4.0]], "cpu").reshape(-1).shape
            (4,)
        """
        axes = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence | np.ndarray) else shape
        try:
            wanted = np.broadcast_to(np.int8(0), self.shape).reshape([int(axis.__index__()) for axis in axes]).shape
        except ValueError:
            raise InvalidArgumentError(f"reshape: {self.shape} cannot become {tuple(axes)}: the sizes differ") from None
        except (AttributeError, TypeError):
            raise InvalidTypeError(f"reshape: {axes!r} is not a shape") from None
        integers = None if self._integers is None else self._integers.reshape(wanted)
        return wrap(self._array.reshape(list(wanted)), integers)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("an array on a device cannot be seen from the host without a copy")
        found = self.numpy()
        return found if dtype is None else found.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        """A DLPack capsule of a copy on the host; no stream is involved."""
        return self.numpy().__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        """The host's CPU, where the copy is."""
        return (1, 0)

    def __eq__(self, other: object) -> Any:
        """Element by element, as a NumPy array of bool on the host."""
        return self.numpy() == np.asarray(other)

    def __ne__(self, other: object) -> Any:
        """Element by element, as a NumPy array of bool on the host."""
        return self.numpy() != np.asarray(other)

    __hash__ = object.__hash__

    def __len__(self) -> int:
        if not self.shape:
            raise InvalidTypeError("an array without axes has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        return bool(self.item()) if self.size == 1 else bool(self.numpy())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __copy__(self) -> VulkanTensor:
        return self

    def __deepcopy__(self, memo: dict[int, Any], /) -> VulkanTensor:
        return self

    def __reduce__(self) -> Any:
        return restored, (self.numpy(), self.device)

    def __repr__(self) -> str:
        return (
            f"VulkanTensor(shape={self.shape}, dtype={self.dtype}, device={self.device!r}, name={self.device_name!r})"
        )


# The slots themselves: every call on arrays makes a tensor, and `closed` has two calls of Python for each attribute.
_set_array, _set_integers = (VulkanTensor.__dict__[name].__set__ for name in ("_array", "_integers"))


def wrap(array: _core.Array, integers: npt.NDArray[np.int32] | None = None) -> VulkanTensor:
    """A tensor around an array of the compiled part; integers keep their values on the host, for range checks."""
    tensor: VulkanTensor = object.__new__(VulkanTensor)
    _set_array(tensor, array)
    _set_integers(tensor, integers)
    return tensor


def integers_of(tensor: VulkanTensor) -> npt.NDArray[np.int32]:
    """The values of an integer tensor, without a transfer if they came from the host."""
    if tensor._integers is None:
        tensor._integers = tensor.numpy()
    return tensor._integers


def placed(x: Any, device: str) -> VulkanTensor:
    """Implementation of `grilly.to_vulkan`."""
    engine = _core.engine(device)
    if isinstance(x, VulkanTensor):
        if x._array.engine == engine:
            return x
        x = x.numpy()
    host = host_array(x, "x")
    if host.dtype.kind == "b":
        host = host.astype(np.int32)
    if host.dtype.kind in "iu":
        ids = as_ids(host, "x")
        return wrap(engine.upload(ids), ids.copy())
    return wrap(engine.upload(as_floats(host, "x")))


def restored(data: npt.NDArray[Any], device: str) -> VulkanTensor:
    """Restores a pickled tensor on its device."""
    try:
        if data.dtype.kind in "iu" and data.dtype.itemsize == 1:
            return wrap(_core.engine(device).upload(np.ascontiguousarray(data)))
        return placed(data, device)
    except GrillyError as error:
        return wrap(cast(_core.Array, Unusable(error)))
