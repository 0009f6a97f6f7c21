"""Arrays that also answer as tensors: code for torch reads results by it, where torch is missing too."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.errors import UnsupportedError
from grilly.inputs import check_dtype, device_and_dtype, device_name
from grilly.place import Place

__all__ = ["Numbers", "Ranked", "dtype_on_cpu"]

#: Methods of a tensor that convert it -> the element type.
CONVERSIONS = {
    "half": "float16", "float": "float32", "double": "float64", "int": "int32", "long": "int64", "bool": "bool",
}  # fmt: skip


def over_dim(name: str) -> Callable[..., Any]:
    """A method of arrays along an axis that also takes it as a tensor's `dim`, with `keepdim`."""
    of_array = getattr(np.ndarray, name)

    @functools.wraps(of_array)
    def method(self: Any, axis: Any = None, *more: Any, dim: Any = None, keepdim: bool = False, **options: Any) -> Any:
        kept = {"keepdims": True} if keepdim else {}
        return of_array(self, axis if dim is None else dim, *more, **options, **kept)

    return method


@closed()
class Ranked(NamedTuple):
    """Numbers and where they were, as `torch.topk` returns them."""

    values: Numbers
    indices: Numbers


@closed()
class Numbers(np.ndarray[Any, np.dtype[Any]]):
    """A NumPy array with methods of a tensor, as results have that sentence-transformers gives as tensors.

    Where NumPy and torch have one name for two things, it is NumPy's: `size` is a number, `sort()` returns None and
    `max(1)` one array, unless `dim` or `descending` is given by keyword. Functions of torch take it as a tensor, and
    return one. Printed and converted by `np.asarray` it is a plain array.

    Example:
        >>> import numpy as np
        >>> from grilly.numbers import Numbers
        >>> scores = np.float32([[1, 3, 2]]).view(Numbers)
        >>> scores.cpu().numpy(), scores[0].topk(2).indices.tolist(), scores.max(dim=1).values.tolist()
        (array([[1., 3., 2.]], dtype=float32), [1, 2], [3.0])
    """

    def __call__(self) -> Numbers:
        """The array itself: the attribute `values` of sparse rows is a method of a tensor."""
        return self

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """What is computed from the numbers is such an array, too, or a number."""
        return array.view(type(self)) if np.ndim(array) else np.asarray(array)[()]

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        """The result of a function of torch, of tensors in place of such arrays."""
        return function(*map(in_torch, arguments), **{name: in_torch(value) for name, value in (options or {}).items()})

    def __repr__(self) -> str:
        return repr(self.numpy())

    def __getattr__(self, name: str) -> Any:
        if name in CONVERSIONS:
            return functools.partial(self.astype, CONVERSIONS[name], copy=False)
        others = "" if name.startswith("_") else "; torch.as_tensor(array) gives a tensor, where torch is installed"
        raise AttributeError(f"an array has no attribute {name!r}{others}")

    all, any, sum, mean = map(over_dim, ("all", "any", "sum", "mean"))
    argmax, argmin = map(over_dim, ("argmax", "argmin"))

    def max(self, axis: Any = None, *more: Any, dim: Any = None, keepdim: bool = False, **options: Any) -> Any:
        """NumPy's; with `dim` the largest numbers along an axis and where they are.

        Example:
            >>> np.array([[1, 3]]).view(Numbers).max(dim=1).indices.tolist()
            [1]
        """
        return super().max(axis, *more, **options) if dim is None else self._best(True, dim, keepdim)

    def min(self, axis: Any = None, *more: Any, dim: Any = None, keepdim: bool = False, **options: Any) -> Any:
        """NumPy's; with `dim` the smallest numbers along an axis and where they are.

        Example:
            >>> np.array([[1, 3]]).view(Numbers).min(dim=1).values.tolist()
            [1]
        """
        return super().min(axis, *more, **options) if dim is None else self._best(False, dim, keepdim)

    def argsort(self, axis: Any = -1, *more: Any, dim: Any = None, descending: bool = False, **options: Any) -> Any:
        """NumPy's; `descending` from the largest, equal ones in their order.

        Example:
            >>> np.array([1, 3, 2, 3]).view(Numbers).argsort(descending=True).tolist()
            [1, 3, 2, 0]
        """
        axis = axis if dim is None else dim
        options.pop("stable", None)
        if not descending:
            return super().argsort(axis, *more, **options)
        turned = np.flip(self.numpy(), axis).argsort(axis, kind="stable")
        return (self.shape[axis] - 1 - np.flip(turned, axis)).view(Numbers)

    def sort(self, axis: Any = -1, *more: Any, dim: Any = None, descending: Any = None, **options: Any) -> Any:
        """NumPy's, in place; with `dim` or `descending` a sorted copy and where its numbers were.

        Example:
            >>> np.array([1, 3, 2]).view(Numbers).sort(descending=True).values.tolist()
            [3, 2, 1]
        """
        if dim is None and descending is None:
            return super().sort(axis, *more, **options)
        return self._at(self.argsort(axis, dim=dim, descending=bool(descending)), axis if dim is None else dim)

    def topk(self, k: Any, dim: Any = -1, largest: bool = True, sorted: bool = True) -> Ranked:
        """The `k` largest or smallest numbers along an axis, from the first on, and where they are.

        Example:
            >>> values, indices = np.float32([0.5, 2, 1]).view(Numbers).topk(2)
            >>> values.tolist(), indices.tolist()
            ([2.0, 1.0], [1, 2])
        """
        kept = [slice(None)] * self.ndim
        kept[dim] = slice(k)
        return self._at(self.argsort(dim, descending=largest)[tuple(kept)], dim)

    def _at(self, indices: Numbers, axis: Any) -> Ranked:
        return Ranked(np.take_along_axis(self, indices, axis).view(Numbers), indices)

    def _best(self, largest: bool, axis: Any, keep: bool) -> Ranked:
        found = self.topk(1, axis, largest)
        return found if keep else Ranked(*(numbers.squeeze(axis).view(Numbers) for numbers in found))

    def cpu(self) -> Numbers:
        """The array itself.

        Example:
            >>> np.array([1, 2]).view(Numbers).cpu().tolist()
            [1, 2]
        """
        return self

    detach = contiguous = cpu

    def clone(self) -> Numbers:
        """A copy.

        Example:
            >>> np.array([1, 2]).view(Numbers).clone().tolist()
            [1, 2]
        """
        made: Numbers = self.copy()
        return made

    def numpy(self) -> npt.NDArray[Any]:
        """The same numbers as a plain array.

        Example:
            >>> type(np.array([1, 2]).view(Numbers).numpy()).__name__
            'ndarray'
        """
        return self.view(np.ndarray)

    @property
    def device(self) -> Any:
        """`"cpu"`."""
        return Place("cpu")

    def to(self, *arguments: Any, device: Any = None, dtype: Any = None, **more: Any) -> Numbers:
        """The array in another element type; the device can only be the CPU.

        Raises:
            UnsupportedError: Another device, or bfloat16, which NumPy does not have.

        Example:
            >>> np.array([1, 2]).view(Numbers).to("cpu", "float16").dtype.name
            'float16'
        """
        name = dtype_on_cpu("arrays", "torch.as_tensor(array)", arguments, device, dtype)
        if name in ("bfloat16", "auto"):
            raise UnsupportedError(f"arrays are NumPy's, which has no {name}; torch.as_tensor(array) gives a tensor")
        return self if name is None else self.astype(name, copy=False).view(Numbers)

    def dim(self) -> Any:
        """Number of axes.

        Example:
            >>> np.array([1, 2]).view(Numbers).dim()
            1
        """
        return self.ndim

    def numel(self) -> Any:
        """How many there are.

        Example:
            >>> np.array([1, 2]).view(Numbers).numel()
            2
        """
        return self.size

    nelement = numel

    def element_size(self) -> Any:
        """Bytes of one number.

        Example:
            >>> np.float32([1, 2]).view(Numbers).element_size()
            4
        """
        return self.itemsize

    def unsqueeze(self, dim: Any) -> Numbers:
        """The array with one more axis, of length 1.

        Example:
            >>> np.array([1, 2]).view(Numbers).unsqueeze(0).shape
            (1, 2)
        """
        return np.expand_dims(self, dim).view(Numbers)


def in_torch(value: Any) -> Any:
    """A tensor in place of such an array, also in a list or tuple."""
    if isinstance(value, list | tuple) and any(isinstance(each, Numbers) for each in value):
        return type(value)(map(in_torch, value))
    return sys.modules["torch"].as_tensor(value.numpy()) if isinstance(value, Numbers) else value


def dtype_on_cpu(what: str, tensor: str, arguments: Any, device: Any, dtype: Any) -> str | None:
    """The element type that the arguments of torch's `to` name, or None; `tensor` is code that gives a tensor.

    Raises:
        UnsupportedError: They name another device than the CPU.

    Example:
        >>> from grilly.numbers import dtype_on_cpu
        >>> dtype_on_cpu("rows", "to_torch()", ["cpu", "float16"], None, None)
        'float16'
    """
    device, dtype = device_and_dtype(arguments, device, dtype)
    if device is not None and not isinstance(device, Place) and device_name(device) != "cpu":
        raise UnsupportedError(f"{what} are on the CPU, not on {device!r}; {tensor}.to({device!r}) moves a tensor")
    return None if dtype is None else check_dtype(dtype)
