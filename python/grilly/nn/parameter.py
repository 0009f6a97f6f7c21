"""`Parameter`: a trainable NumPy array, with a copy on the module's device."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.arrays import VulkanTensor, to_vulkan
from grilly.closed import closed
from grilly.errors import UnusableError
from grilly.nn.tracked import Tracked, plain
from grilly.operands import as_floats

__all__ = ["Parameter"]

#: At most so many numbers of a parameter are compared with those of its copy.
SAMPLED = 64


@closed("grad", "requires_grad")
class Parameter(Tracked):
    """A trainable NumPy array.

    Args:
        data: Numbers; float32 unless they are float16. Copied.
        requires_grad: Whether gradients are accumulated; default True.

    Attributes:
        grad: The gradient in the same shape, or None.
        requires_grad: As given; may be changed.

    A module on a device keeps a copy of its parameters there. It is renewed at the next call after each function or
    method of NumPy that gets the parameter, or a view of it (`p[0]`, `p.T`), as its destination: `p[...] = x`,
    `p += x`, `numpy.add.at(p, ...)`, `p[0].sort()`. Call `p.touch()` after writes of which NumPy tells nobody: into an
    array of NumPy's own class over the same memory (`numpy.asarray(p)[0] = x`, `p.view(numpy.ndarray)`), by the buffer
    protocol (`memoryview`, `readinto`), by `numpy.nditer`, and into `out=p` of random generators or of methods of other
    arrays. These are noticed only if they change one of at most 64 numbers, evenly spaced.

    While a recorded program holds its numbers, the array is read-only and full of NaN: see `grilly.program.Program`.

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
    #: Of the array when the copy was made: its shape, some of its numbers as a view, and these as they were.
    _shape: tuple[int, ...]
    _some: npt.NDArray[Any]
    _seen: bytes
    #: Reads the numbers that a program holds, and its device.
    _held: Callable[[], VulkanTensor] | None
    _holder: str
    #: A hash of what was last written here while a program holds the numbers, and whether these were the numbers.
    _written: bytes
    _shown: bool

    def __new__(cls, data: Any, requires_grad: bool = True) -> Parameter:
        made = np.array(as_floats(data, "data")).view(cls)
        made.requires_grad = requires_grad
        return made

    def __array_finalize__(self, source: Any) -> None:
        super().__array_finalize__(source)
        # At once, since every view of an array passes here.
        vars(self).update(grad=None, requires_grad=True, _device=None, _copy=None, _held=None, _shown=False)

    def _origin(self) -> weakref.ref[Any]:
        return self._root or weakref.ref(self)

    def _may_write(self) -> None:
        self._check_writable()

    def _wrote(self) -> None:
        self.touch()
        super()._wrote()

    def __reduce__(self) -> Any:
        return restored, (self.numpy(), self.requires_grad, self._device)

    def __deepcopy__(self, memo: dict[int, Any] | None, /) -> Parameter:
        made = restored(self.numpy(), self.requires_grad, self._device)
        made.grad = None if self.grad is None else self.grad.copy()
        return made

    def touch(self) -> None:
        """Marks the numbers as changed, so that a copy on a device is updated; for writes of which NumPy tells nobody.

        Example:
            >>> from grilly import nn
            >>> p = nn.Parameter([1.0])
            >>> p.touch()
        """
        self._copy = None

    def assign(self, values: Any) -> None:
        """Sets all numbers; a tensor on the parameter's device becomes its copy there.

        Raises:
            UnusableError: A program holds the numbers.

        Example:
            >>> from grilly import nn
            >>> p = nn.Parameter([1.0])
            >>> p.assign([2.0])
            >>> p.tolist()
            [2.0]
        """
        self[...] = np.asarray(values)
        if isinstance(values, VulkanTensor) and self._device is not None:
            self._keep(to_vulkan(values, self._device))

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
        self._check_writable()
        self._device, self._copy = device, None

    @property
    def placed(self) -> str | None:
        """The device set by `place`, or that of the program that holds the numbers, or None."""
        return self._device if self._held is None else self._holder

    def operand(self, beside: Any = None) -> Any:
        """The copy on the device, or the NumPy array if there is no copy or `beside` is a NumPy array.

        Example:
            >>> from grilly import nn
            >>> nn.Parameter([1.0]).operand().tolist()
            [1.0]
        """
        if self._held is not None:
            return self.numpy() if isinstance(beside, np.ndarray) else self._held()
        if self._device is None or isinstance(beside, np.ndarray):
            return plain(self)
        if self._copy is None or self._shape != self.shape or self._some.tobytes() != self._seen:
            self._keep(to_vulkan(plain(self), self._device))
        return self._copy

    def _keep(self, copy: VulkanTensor) -> None:
        """Takes a copy on the device, with some of the numbers by which writes of which nobody tells are noticed."""
        numbers = plain(self).reshape(-1)  # a copy where the array is not contiguous
        self._copy, self._shape, self._some = copy, self.shape, numbers[:: self.size // SAMPLED + 1]
        self._seen = self._some.tobytes()

    @property
    def lent(self) -> bool:
        """Whether a program holds the numbers."""
        return self._held is not None

    def lend(self, device: str, held: Callable[[], VulkanTensor]) -> None:
        """Leaves the numbers to a program on a device, from which `held` reads them; for `Graph.program`.

        Example:
            >>> import grilly
            >>> from grilly import nn
            >>> p = nn.Parameter([1.0])
            >>> p.lend("cpu", lambda: grilly.to_vulkan([2.0], "cpu"))
            >>> p.tolist(), p.numpy().tolist()
            ([nan], [2.0])
        """
        self._held, self._holder = held, device
        self._write(np.nan)

    def numpy(self) -> npt.NDArray[Any]:
        """A copy of the numbers, from the program that holds them if there is one.

        Raises:
            UnusableError: The array was written through a view while a program held the numbers; that is dropped.

        Example:
            >>> from grilly import nn
            >>> nn.Parameter([1.0]).numpy().tolist()
            [1.0]
        """
        if self._held is None:
            return np.array(self)
        self._check_unwritten()
        return self._held().numpy()

    def sync(self) -> None:
        """Copies the numbers that a program holds into the array, where they stay until its next run.

        Raises:
            UnusableError: As `numpy`.

        Example:
            >>> from grilly import nn
            >>> nn.Parameter([1.0]).sync()
        """
        if self._held is not None:
            self._write(self.numpy())
            self._shown = True

    def hide(self) -> None:
        """Ends what `sync` began.

        Example:
            >>> from grilly import nn
            >>> nn.Parameter([1.0]).hide()
        """
        if self._shown:
            self._check_unwritten()
            self._write(np.nan)

    def take_back(self) -> None:
        """Ends what `lend` began: the array has the numbers and may be written.

        Raises:
            UnusableError: As `numpy`.

        Example:
            >>> from grilly import nn
            >>> nn.Parameter([1.0]).take_back()
        """
        if self._held is not None:
            self._write(self.numpy())
            self._held, self._shown = None, False
            self.flags.writeable = True
            self.touch()

    def _write(self, values: Any) -> None:
        """Writes into the read-only array."""
        self.flags.writeable = True
        plain(self)[...] = values
        self.flags.writeable = False
        self._written, self._shown = self._hash(), False

    def _hash(self) -> bytes:
        return hashlib.blake2b(self.tobytes()).digest()

    def _check_unwritten(self) -> None:
        if self._hash() != self._written:
            self._write(np.nan)
            raise UnusableError(
                "a parameter was written through a view while a program holds its numbers; that is dropped now: "
                "release the program before writing"
            )

    def _check_writable(self) -> None:
        if self._held is not None:
            raise UnusableError("a program holds the parameter's numbers; release it before changing them")


def restored(data: npt.NDArray[Any], requires_grad: bool, device: str | None) -> Parameter:
    """A parameter with the numbers and the device of another."""
    made = Parameter(data, requires_grad)
    made.place(device)
    return made
