"""`Parameter`: a trainable NumPy array, with a copy on the module's device."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.arrays import VulkanTensor, to_vulkan
from grilly.operands import as_floats

__all__ = ["Parameter"]


class Parameter(np.ndarray[Any, np.dtype[Any]]):
    """A trainable NumPy array.

    Args:
        data: Numbers; float32 unless they are float16. Copied.
        requires_grad: Whether gradients are accumulated; default True.

    Attributes:
        grad: The gradient in the same shape, or None.
        requires_grad: As given; may be changed.

    A module on a device keeps a copy of its parameters there. Writing through the parameter (`p[...] = x`, `p += x`, a
    ufunc's `out=p`) updates it at the next call; after writing through a view of it, call `p.touch()`.

    Source: upstream's `nn.Parameter`.

    Example:
        >>> import numpy as np
        >>> from grilly import nn
        >>> p = nn.Parameter(np.zeros(3))
        >>> p += 1
        >>> p.tolist(), p.grad is None
        ([1.0, 1.0, 1.0], True)
    """

    grad: npt.NDArray[Any] | None
    requires_grad: bool
    _device: str | None
    _copy: VulkanTensor | None

    def __new__(cls, data: Any, requires_grad: bool = True) -> Parameter:
        made = np.array(as_floats(data, "data")).view(cls)
        made.requires_grad = requires_grad
        return made

    def __array_finalize__(self, source: Any) -> None:
        self.grad = None
        self.requires_grad = True
        self._device = None
        self._copy = None

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        plain = [x.view(np.ndarray) if isinstance(x, Parameter) else x for x in inputs]
        if out is not None:
            options["out"] = tuple(x.view(np.ndarray) if isinstance(x, Parameter) else x for x in out)
            for x in out:
                if isinstance(x, Parameter):
                    x.touch()
        found = getattr(ufunc, method)(*plain, **options)
        return out[0] if out is not None and len(out) == 1 and isinstance(out[0], Parameter) else found

    def __setitem__(self, place: Any, value: Any) -> None:
        super().__setitem__(place, value)
        self.touch()

    def __getitem__(self, place: Any) -> Any:
        return self.view(np.ndarray)[place]

    def __reduce__(self) -> Any:
        return restored, (self.view(np.ndarray), self.requires_grad, self._device)

    def __deepcopy__(self, memo: dict[int, Any] | None, /) -> Parameter:
        made = restored(self, self.requires_grad, self._device)
        made.grad = None if self.grad is None else self.grad.copy()
        return made

    def touch(self) -> None:
        """Marks the numbers as changed, so that a copy on a device is updated.

        Example:
            >>> from grilly import nn
            >>> p = nn.Parameter([1.0])
            >>> p.touch()
        """
        self._copy = None

    def fill(self, value: Any) -> None:
        """Sets every element.

        Example:
            >>> from grilly import nn
            >>> p = nn.Parameter([1.0])
            >>> p.fill(2)
            >>> p.tolist()
            [2.0]
        """
        super().fill(value)
        self.touch()

    def zero_grad(self) -> None:
        """Clears the gradient.

        Example:
            >>> from grilly import nn
            >>> p = nn.Parameter([1.0])
            >>> p.grad = p * 2
            >>> p.zero_grad()
            >>> p.grad is None
            True
        """
        self.grad = None

    def accumulate(self, gradient: Any) -> None:
        """Accumulates the gradient, if `requires_grad`.

        Example:
            >>> import numpy as np
            >>> from grilly import nn
            >>> p = nn.Parameter([1.0])
            >>> p.accumulate(np.array([2.0], np.float32))
            >>> p.grad.tolist()
            [2.0]
        """
        if self.requires_grad:
            found = np.asarray(gradient, dtype=self.dtype)
            self.grad = found.copy() if self.grad is None else self.grad + found

    def place(self, device: str | None) -> None:
        """Sets the device of the copy: a device string, or None for no copy.

        Example:
            >>> from grilly import nn
            >>> p = nn.Parameter([1.0])
            >>> p.place("cpu")
            >>> p.operand().device
            'cpu'
        """
        self._device, self._copy = device, None

    @property
    def placed(self) -> str | None:
        """The device set by `place`, or None."""
        return self._device

    def operand(self, beside: Any = None) -> Any:
        """The copy on the device, or the NumPy array if there is no copy or `beside` is a NumPy array.

        Example:
            >>> from grilly import nn
            >>> nn.Parameter([1.0]).operand().tolist()
            [1.0]
        """
        if self._device is None or isinstance(beside, np.ndarray):
            return self.view(np.ndarray)
        if self._copy is None:
            self._copy = to_vulkan(self.view(np.ndarray), self._device)
        return self._copy


def restored(data: npt.NDArray[Any], requires_grad: bool, device: str | None) -> Parameter:
    """A parameter with the numbers and the device of another."""
    made = Parameter(data, requires_grad)
    made.place(device)
    return made
