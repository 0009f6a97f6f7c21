"""Arrays that stay on a device: `to_vulkan` puts data there, `from_vulkan` brings it back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from grilly import _core
from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.operands import as_floats, as_ids, host_array

__all__ = [
    "VulkanTensor",
    "ensure_vulkan_compatible",
    "from_dlpack",
    "from_vulkan",
    "to_vulkan",
    "to_vulkan_batch",
    "to_vulkan_gpu",
]


class VulkanTensor:
    """An array on a device: contiguous, never changed, and freed with its last name (`del`).

    Functions of `grilly.functional` and modules of `grilly.nn` that get one compute on its device and return another;
    a chain of them moves no data and is recorded as one submission. NumPy functions take one too and get a copy on the
    host.

    Args:
        data: What `to_vulkan` takes.
        device: `"vulkan"`, `"vulkan:N"` or `"cpu"`; default `"vulkan"`.

    Raises:
        InvalidTypeError: The data is not numbers.

    Source: upstream's class of the same name, which held a NumPy array and a buffer; this one holds the buffer alone.

    Example:
        >>> import grilly, numpy as np
        >>> x = grilly.VulkanTensor(np.array([[1.0, -2.0]]), device="cpu")
        >>> x.shape, x.dtype, x.numpy().tolist()
        ((1, 2), dtype('float32'), [[1.0, -2.0]])
    """

    __slots__ = ("_array", "_integers")
    _array: _core.Array
    _integers: npt.NDArray[np.int32] | None
    __array_priority__ = 1.0

    def __init__(self, data: Any, device: str = "vulkan") -> None:
        made = to_vulkan(data, device)
        self._array, self._integers = made._array, made._integers

    @property
    def shape(self) -> tuple[int, ...]:
        """Axes, slowest first."""
        return tuple(self._array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's float32, float16, or int32 for ids and masks."""
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
        """Bytes of an element."""
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
        """The elements in a new NumPy array; waits for what computes them.

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
            InvalidArgumentError: The shape has another number of elements.

        Example:
            >>> import grilly
            >>> grilly.to_vulkan([[1.0, 2.0], [3.0, 4.0]], "cpu").reshape(-1).shape
            (4,)
        """
        axes = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
        try:
            wanted = np.broadcast_to(np.int8(0), self.shape).reshape([int(axis.__index__()) for axis in axes]).shape
        except ValueError:
            raise InvalidArgumentError(f"reshape: shape {self.shape} has not the elements of {tuple(axes)}") from None
        except AttributeError:
            raise InvalidTypeError(f"reshape: {axes!r} is not a shape") from None
        integers = None if self._integers is None else self._integers.reshape(wanted)
        return wrap(self._array.reshape(list(wanted)), integers)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("an array on a device cannot be seen from the host without a copy")
        found = self.numpy()
        return found if dtype is None else found.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        """A DLPack capsule of a copy on the host, which no stream computes."""
        return self.numpy().__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        """The host's CPU, where the copy is."""
        return (1, 0)

    def __len__(self) -> int:
        if not self.shape:
            raise InvalidTypeError("an array without axes has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        return bool(self.item()) if self.size == 1 else bool(self.numpy())

    def __float__(self) -> float:
        return float(self.item())

    def __repr__(self) -> str:
        return (
            f"VulkanTensor(shape={self.shape}, dtype={self.dtype}, device={self.device!r}, name={self.device_name!r})"
        )


def wrap(array: _core.Array, integers: npt.NDArray[np.int32] | None = None) -> VulkanTensor:
    """A tensor around an array of the compiled part; integers keep their values on the host, for tests of ranges."""
    tensor = VulkanTensor.__new__(VulkanTensor)
    tensor._array, tensor._integers = array, integers
    return tensor


def integers_of(tensor: VulkanTensor) -> npt.NDArray[np.int32]:
    """The values of an integer tensor, without a transfer where they came from the host."""
    if tensor._integers is None:
        tensor._integers = tensor.numpy()
    return tensor._integers


def to_vulkan(x: Any, device: str | bool = "vulkan", *, keep_on_gpu: bool = True) -> VulkanTensor:
    """Puts an array on a device.

    Args:
        x: A NumPy array, number, nested lists, torch tensor or anything else with `__array__` or `__dlpack__`; any
            strides. float16 stays, float32 and float64 become float32, and integers and bool become int32: ids, or
            masks of 0 and 1. A tensor that is already there is returned as it is.
        device: `"vulkan"`, `"vulkan:N"` or `"cpu"`; default `"vulkan"`, which is the CPU where there is no usable GPU.
        keep_on_gpu: Upstream's option, without effect: the result is always on the device, and NumPy can read it.

    Returns:
        A `VulkanTensor` of the same shape.

    Raises:
        InvalidTypeError: Not numbers.
        IndexOutOfRangeError: An integer beyond 32 bits, or no device N.

    Source: upstream's function of the same name, which returned a NumPy array.

    Example:
        >>> import grilly, numpy as np
        >>> x = grilly.to_vulkan(np.ones((2, 3)), "cpu")
        >>> grilly.functional.relu(x).shape
        (2, 3)
    """
    engine = _core.engine("vulkan" if isinstance(device, bool) else device)
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


def to_vulkan_gpu(x: Any, device: str = "vulkan") -> VulkanTensor:
    """`to_vulkan` under its other upstream name.

    Example:
        >>> import grilly
        >>> grilly.to_vulkan_gpu([1.0, 2.0]).shape
        (2,)
    """
    return to_vulkan(x, device)


def to_vulkan_batch(tensors: Any, device: str = "vulkan") -> Any:
    """`to_vulkan` of every item of a list or tuple, in the same kind of container; of anything else, of itself.

    Example:
        >>> import grilly
        >>> [x.shape for x in grilly.to_vulkan_batch([[1.0], [[2.0, 3.0]]], "cpu")]
        [(1,), (1, 2)]
    """
    if isinstance(tensors, list | tuple):
        made = [to_vulkan(x, device) for x in tensors]
        return made if isinstance(tensors, list) else tuple(made)
    return to_vulkan(tensors, device)


def from_vulkan(x: Any, device: str | None = None) -> npt.NDArray[Any]:
    """The elements of an array on a device, in a new NumPy array; other arrays become NumPy arrays.

    Args:
        x: A `VulkanTensor`, or what NumPy takes.
        device: Upstream's option, without effect: it named a torch device.

    Example:
        >>> import grilly
        >>> grilly.from_vulkan(grilly.to_vulkan([1.0, 2.0], "cpu"))
        array([1., 2.], dtype=float32)
    """
    return x.numpy() if isinstance(x, VulkanTensor) else host_array(x, "x")


def ensure_vulkan_compatible(x: Any) -> npt.NDArray[Any]:
    """A NumPy array as a device takes it: contiguous, integers as they are, float16 or float32.

    Raises:
        InvalidTypeError: Not numbers.

    Example:
        >>> import grilly, numpy as np
        >>> grilly.ensure_vulkan_compatible(np.ones((2, 3)).T).dtype
        dtype('float32')
    """
    host = from_vulkan(x)
    return np.require(host, requirements=["C", "A"]) if host.dtype.kind in "iu" else as_floats(host, "x")


def from_dlpack(x: Any, device: str = "vulkan") -> VulkanTensor:
    """`to_vulkan` of an array of another library that speaks DLPack, such as a torch tensor on the CPU.

    Raises:
        InvalidTypeError: No `__dlpack__`, or memory that the host cannot read.

    Example:
        >>> import grilly, numpy as np
        >>> grilly.from_dlpack(np.ones(3, np.float32), "cpu").shape
        (3,)
    """
    if not hasattr(x, "__dlpack__"):
        raise InvalidTypeError(f"x is of type {type(x).__name__}, which has no __dlpack__")
    try:
        return to_vulkan(np.from_dlpack(x), device)
    except (TypeError, RuntimeError, BufferError) as error:
        raise InvalidTypeError(f"x of type {type(x).__name__} cannot be read on the host: {error}") from None
