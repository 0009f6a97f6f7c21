"""Arrays that stay on a device: `to_vulkan` uploads data, `from_vulkan` downloads it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.device_array import VulkanTensor, placed
from grilly.errors import InvalidTypeError
from grilly.operands import as_floats, host_array, read_dlpack

__all__ = [
    "VulkanTensor",
    "ensure_vulkan_compatible",
    "from_dlpack",
    "from_vulkan",
    "to_vulkan",
    "to_vulkan_batch",
    "to_vulkan_gpu",
]


def to_vulkan(x: Any, device: str | bool = "vulkan", *, keep_on_gpu: bool = True) -> VulkanTensor:
    """Puts an array on a device.

    Args:
        x: A NumPy array, number, nested lists, torch tensor or anything else with `__array__` or `__dlpack__`; any
            strides. float16 is kept, float32 and float64 become float32, and integers and bool become int32: ids, or
            masks of 0 and 1. A tensor that is already on the device is returned unchanged.
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
    return placed(x, "vulkan" if isinstance(device, bool) else device)


def to_vulkan_gpu(x: Any, device: str = "vulkan") -> VulkanTensor:
    """`to_vulkan` under its other upstream name.

    Example:
        >>> import grilly
        >>> grilly.to_vulkan_gpu([1.0, 2.0]).shape
        (2,)
    """
    return to_vulkan(x, device)


def to_vulkan_batch(tensors: Any, device: str = "vulkan") -> Any:
    """`to_vulkan` of every item of a list or tuple, in the same kind of container; anything else is converted itself.

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
        x: A `VulkanTensor`, or anything convertible by NumPy.
        device: Upstream's option, without effect: it named a torch device.

    Example:
        >>> import grilly
        >>> grilly.from_vulkan(grilly.to_vulkan([1.0, 2.0], "cpu"))
        array([1., 2.], dtype=float32)
    """
    return x.numpy() if isinstance(x, VulkanTensor) else host_array(x, "x")


def ensure_vulkan_compatible(x: Any) -> npt.NDArray[Any]:
    """A NumPy array in the form that devices accept: contiguous, integers unchanged, float16 or float32.

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
    """`to_vulkan` of an array of another library that supports DLPack, such as a torch tensor on the CPU.

    Raises:
        InvalidTypeError: No `__dlpack__`, or one that returns no array in host-readable memory.

    Example:
        >>> import grilly, numpy as np
        >>> grilly.from_dlpack(np.ones(3, np.float32), "cpu").shape
        (3,)
    """
    if not hasattr(x, "__dlpack__"):
        raise InvalidTypeError(f"x is of type {type(x).__name__}, which has no __dlpack__")
    return to_vulkan(read_dlpack(x, "x"), device)
