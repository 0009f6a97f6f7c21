"""Where every functional operation runs: on the device of its operands, else on the default one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from grilly import _core, fallbacks
from grilly.device_array import VulkanTensor, integers_of, wrap
from grilly.errors import DeviceError, IndexOutOfRangeError, InvalidArgumentError, InvalidTypeError
from grilly.operands import as_floats, as_ids, host_array

#: An operand: a NumPy array or anything convertible to one, or an array on a device.
Operand: TypeAlias = "npt.ArrayLike | VulkanTensor"
#: A result: an array on the device if an operand was one, else a NumPy array.
Result: TypeAlias = Any
#: The result, or the tuple of results, that a function declares.
Found = TypeVar("Found")
Prepared: TypeAlias = "npt.NDArray[Any] | VulkanTensor"
#: Maximum size of the cache of constants in bytes, over all devices.
MOST = 16 << 20

#: The largest float32.
LARGEST = float(np.finfo(np.float32).max)

_held: dict[Any, _core.Array] = {}
# A forked process cannot use its parent's arrays. Windows has no forks.
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_held.clear)


def kept(engine: _core.Engine, make: Callable[..., npt.NDArray[Any]], *key: Any) -> _core.Array:
    """The numbers `make(*key)` on a device, cached so that a chain of operations transfers nothing."""
    place = (engine, make, key)
    found = _held.get(place)
    if found is None:
        found = engine.upload(np.asarray(make(*key), order="C"))
        if sum(array.nbytes for array in list(_held.values())) + found.nbytes > MOST:
            _held.clear()
        if found.nbytes <= MOST // 4:
            _held[place] = found
    return found


def filled(value: float, shape: int | tuple[int, ...] = ()) -> npt.NDArray[np.float32]:
    """An array filled with one number."""
    return np.full(shape, value, np.float32)


def offsets(rows: int, length: int) -> npt.NDArray[np.int32]:
    """Boundaries of rows of equal length: the start of each, and the end of the last."""
    return np.arange(rows + 1, dtype=np.int32) * length


@cache
def belongs_to_training(operation: str) -> bool:
    """By its name; some of these functions consist of operations of inference."""
    return "backward" in operation or "_update" in operation


#: The architecture whose registered shaders run the operations; `Compute` sets it.
SHADERS_OF: ContextVar[str] = ContextVar("grilly_shaders_of", default="")


class Recorder:
    """The operations of one engine, as method calls. Operands that are None are left out."""

    __slots__ = ("engine",)

    def __init__(self, engine: _core.Engine) -> None:
        self.engine = engine

    def __call__(self, operation: str, *operands: _core.Array | None, **attributes: Any) -> _core.Array:
        return self.engine.call(operation, operands, attributes, SHADERS_OF.get())

    def each(self, operation: str, *operands: _core.Array | None, **attributes: Any) -> list[_core.Array]:
        """All results of an operation."""
        return self.engine.call_all(operation, operands, attributes, SHADERS_OF.get())

    def vjp(
        self, operation: str, gradient: _core.Array, *operands: _core.Array | None, **attributes: Any
    ) -> list[_core.Array | None]:
        """The gradients of an operation's operands, from the gradient of its result."""
        return self.engine.vjp(operation, operands, gradient, attributes, SHADERS_OF.get())

    def gradient(
        self, operation: str, gradient: _core.Array, *operands: _core.Array | None, **attributes: Any
    ) -> _core.Array:
        """The gradient of the first operand alone, in its type."""
        x, found = operands[0], self.engine.vjp(operation, operands, gradient, attributes, SHADERS_OF.get())[0]
        assert x is not None and found is not None  # the operations have one
        return found if found.dtype == x.dtype else self("cast", found, to=x.dtype)

    def constant(self, values: npt.ArrayLike) -> _core.Array:
        """Uploads numbers that do not depend on data."""
        values = np.asarray(values)
        return self.engine.upload(
            values if values.dtype == np.int32 else np.asarray(values, dtype=np.float32, order="C")
        )

    def kept(self, make: Callable[..., npt.NDArray[Any]], *key: Any) -> _core.Array:
        """The numbers `make(*key)`, cached on the device for later calls."""
        return kept(self.engine, make, *key)

    def wide(self, x: _core.Array) -> _core.Array:
        """Converts to float32, so that intermediate steps are not rounded to float16."""
        return self("cast", x, to="float32") if x.dtype == "float16" else x

    def like(self, y: _core.Array, x: _core.Array) -> _core.Array:
        """`y` converted to the type of `x`."""
        return y if y.dtype == x.dtype else self("cast", y, to=x.dtype)


def evaluate(operation: str, body: Callable[..., Found], *operands: Prepared | None, alike: int = 0) -> Found:
    """Runs `body(recorder, *arrays)`, which records the operation and returns an array, or a tuple of them.

    The first `alike` operands are peers: a mix of float16 and float32 becomes float32, as in NumPy and torch. The
    others (weights, biases, tables) do not affect the type of the result.

    With a device array among the operands, it runs on that device, and the results stay there. Otherwise it runs on the
    default device, and the results are NumPy arrays; if that device fails, the call falls back to the CPU, with a
    warning, unless `GRILLY_STRICT=1`.

    Where numbers are to be the same everywhere, what belongs to training is refused by its name.
    """
    if belongs_to_training(operation):
        _core.check_trains(operation)
    device: _core.Engine | None = None
    for operand in operands:
        if isinstance(operand, VulkanTensor):
            engine = operand._array.engine
            if device is not None and engine is not device and engine != device:
                names = " and ".join(sorted({device.device, engine.device}))
                raise InvalidArgumentError(
                    f"{operation}: operands are on different devices, {names}; to_vulkan moves one"
                )
            device = engine
    if device is not None:
        return _run(device, body, operands, alike, wrap)
    try:
        device = _core.engine("auto")
        return _run(device, body, operands, alike, _core.Array.numpy)
    except DeviceError as error:
        if device is not None and device.backend == "cpu":
            raise
        fallbacks.to_cpu(operation, error)
    return _run(_core.engine("cpu"), body, operands, alike, _core.Array.numpy)


def _run(
    engine: _core.Engine,
    body: Callable[..., Found],
    operands: Sequence[Prepared | None],
    alike: int,
    convert: Callable[[_core.Array], Any],
) -> Found:
    """The result of `body`, or each one of a tuple that is not None, converted."""
    arrays: list[_core.Array | None] = []
    for operand in operands:
        if isinstance(operand, VulkanTensor):
            arrays.append(operand._array)
        else:
            arrays.append(None if operand is None else engine.upload(operand))
    recorder = Recorder(engine)
    if alike > 1 and len({array.dtype for array in arrays[:alike] if array is not None}) > 1:
        arrays[:alike] = [None if array is None else recorder.wide(array) for array in arrays[:alike]]
    result: Any = body(recorder, *arrays)
    if isinstance(result, tuple):
        return tuple(None if part is None else convert(part) for part in result)  # type: ignore[return-value]
    return convert(result)  # type: ignore[no-any-return]


def floats(value: Any, name: str) -> Prepared:
    """A float32 or float16 operand; integers on a device are converted to float32 there."""
    if isinstance(value, VulkanTensor):
        if value._array.dtype == "int32":
            return wrap(value._array.engine.call("cast", (value._array,), {"to": "float32"}))
        return value
    return as_floats(value, name)


def optional(value: Any, name: str) -> Prepared | None:
    """The same, or None."""
    return None if value is None else floats(value, name)


def ids(value: Any, name: str, rows: int) -> tuple[Prepared, npt.NDArray[np.int32]]:
    """Indices in `0 .. rows - 1`: as an operand, and their values on the host."""
    if isinstance(value, VulkanTensor):
        if value._array.dtype != "int32":
            raise InvalidTypeError(f"{name} is of type {value.dtype}, expected integers")
        operand: Prepared = value
        host, bounds = integers_of(value), value._array.bounds
    else:
        operand = host = as_ids(value, name)
        bounds = (int(host.min()), int(host.max())) if host.size else None
    if bounds is not None:
        least, most = bounds
        if least < 0 or most >= rows:
            wrong = least if least < 0 else most
            raise IndexOutOfRangeError(f"{name} has the value {wrong}, expected 0 to {rows - 1}")
    return operand, host


def mask_values(value: Any, name: str) -> tuple[Prepared, bool]:
    """A mask as an operand, and whether it is a keep mask: bool and integers keep where they are not 0."""
    if isinstance(value, VulkanTensor):
        return value, value._array.dtype == "int32"
    array = host_array(value, name)
    if array.dtype.kind in "biu":
        return np.asarray(array != 0, dtype=np.int32, order="C"), True
    if array.dtype.kind == "f" and array.dtype.itemsize > 4:
        # The least float64 would be negative infinity in float32, which hides a key.
        array = np.where(np.isfinite(array), np.clip(array, -LARGEST, LARGEST), array)
    return as_floats(array, name), False
