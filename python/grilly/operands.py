"""Conversion of callers' arrays to the form that devices accept: contiguous float32, float16 or int32."""

from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import IndexOutOfRangeError, InvalidArgumentError, InvalidTypeError
from grilly.inputs import as_int
from grilly.resources import need

Host = npt.NDArray[Any]
INT32 = np.iinfo(np.int32)


def host_array(value: Any, name: str) -> Host:
    """`value` as a NumPy array: an array, a number, nested lists, or anything with `__array__` or `__dlpack__`."""
    if type(value) is np.ndarray:
        return value
    if isinstance(value, np.ma.MaskedArray):
        raise InvalidTypeError(f"{name} is a masked array, whose mask would be lost; fill it: x.filled(value)")
    try:
        detach = getattr(value, "detach", None)  # a torch tensor that requires gradients refuses __array__
        if callable(detach):
            value = detach()
        found = None if not hasattr(value, "__array__") and hasattr(value, "__dlpack__") else np.asarray(value)
    except ValueError as error:
        raise InvalidArgumentError(f"{name} is not an array: {error}") from None
    except (TypeError, RuntimeError, BufferError) as error:
        raise InvalidTypeError(f"{name} of type {type(value).__name__} is not an array: {error}") from None
    if found is None:
        return read_dlpack(value, name)
    if found.dtype.kind == "O":
        raise InvalidTypeError(f"{name} is of type {type(value).__name__}, expected an array of numbers")
    return found


def read_dlpack(value: Any, name: str) -> Host:
    """The array that `value.__dlpack__` returns."""
    try:
        return np.from_dlpack(value)
    except (AttributeError, TypeError, ValueError, RuntimeError, BufferError) as error:
        kind = type(value).__name__
        raise InvalidTypeError(f"{name} of type {kind} gives no array that the host can read: {error}") from None


def as_floats(value: Any, name: str) -> Host:
    """Keeps float16; converts float32, float64, bool and integers to float32; rejects other types."""
    array = host_array(value, name)
    if array.dtype.kind not in "fbiu":
        raise InvalidTypeError(f"{name} is of type {array.dtype}, expected numbers")
    dtype = np.float16 if array.dtype.kind == "f" and array.dtype.itemsize == 2 else np.float32
    if array.dtype != dtype or not array.flags.c_contiguous:
        need(array.shape, dtype, name)
    with np.errstate(over="ignore"):
        return np.require(np.asarray(array, dtype=dtype), requirements=["C", "A"])


def as_ids(value: Any, name: str) -> Host:
    """Whole numbers of any integer type as int32."""
    array = host_array(value, name)
    if array.size == 0 and array.dtype.kind == "f":  # an empty list
        array = array.astype(np.int32)
    if array.dtype.kind not in "iu":
        raise InvalidTypeError(f"{name} is of type {array.dtype}, expected integers")
    if array.dtype != np.int32 or not array.flags.c_contiguous:
        need(array.shape, np.int32, name)
    if array.size and array.dtype != np.int32:
        least, most = int(array.min()), int(array.max())
        if least < INT32.min or most > INT32.max:
            wrong = least if least < INT32.min else most
            raise IndexOutOfRangeError(f"{name} has the value {wrong}, which no index reaches")
    return np.require(np.asarray(array, dtype=np.int32), requirements=["C", "A"])


def normal_axis(axis: Any, rank: int, name: str) -> int:
    """`axis` counted from the front."""
    number = as_int(axis, name)
    if not -rank <= number < rank:
        raise IndexOutOfRangeError(f"{name} is {number}, and the array has {rank} axes")
    return number % rank
