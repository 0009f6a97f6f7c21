"""Transforms: functions of one sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.errors import IndexOutOfRangeError
from grilly.functional.checks import fraction, whole

__all__ = ["Compose", "Flatten", "Lambda", "Normalize", "OneHot", "RandomFlip", "RandomNoise", "ToFloat32"]

Array = npt.NDArray[Any]


@closed("transforms")
class Compose:
    """Transforms one after the other.

    Args:
        transforms: The transforms, first first.

    Source: upstream's `Compose`.

    Example:
        >>> from grilly.utils.data import Compose, Flatten, ToFloat32
        >>> Compose([ToFloat32(0.5), Flatten()])(np.array([[2], [4]])).tolist()
        [1.0, 2.0]
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x


@closed("scale")
class ToFloat32:
    """The numbers in float32, times a factor.

    Args:
        scale: The factor; default 1.

    Source: upstream's `ToFloat32`.

    Example:
        >>> from grilly.utils.data import ToFloat32
        >>> ToFloat32(1 / 255)(np.array([0, 255], np.uint8)).tolist()
        [0.0, 1.0]
    """

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    def __call__(self, x: Any) -> Array:
        scaled: Array = np.asarray(x, np.float32) * np.float32(self.scale)
        return scaled


@closed("mean", "std")
class Normalize:
    """`(x - mean) / (std + 1e-8)`.

    Args:
        mean: A number, or an array that broadcasts to the sample.
        std: Likewise.

    Source: upstream's `Normalize`.

    Example:
        >>> from grilly.utils.data import Normalize
        >>> Normalize(1.0, 2.0)(np.array([1.0, 5.0])).tolist()
        [0.0, 2.0]
    """

    def __init__(self, mean: Any, std: Any) -> None:
        self.mean, self.std = np.asarray(mean, np.float32), np.asarray(std, np.float32)

    def __call__(self, x: Any) -> Array:
        found: Array = (x - self.mean) / (self.std + np.float32(1e-8))
        return found


@closed("start_dim")
class Flatten:
    """All axes from `start_dim` on as one.

    Args:
        start_dim: The first of them; default 0.

    Source: upstream's `Flatten`.

    Example:
        >>> from grilly.utils.data import Flatten
        >>> Flatten(1)(np.ones((2, 3, 4))).shape
        (2, 12)
    """

    def __init__(self, start_dim: int = 0) -> None:
        self.start_dim = start_dim

    def __call__(self, x: Any) -> Array:
        axes = np.shape(x)[: self.start_dim]
        return np.asarray(x).reshape(*axes, -1)


@closed("std")
class RandomNoise:
    """Normal noise added to a sample, from NumPy's global generator.

    Args:
        std: Its deviation; default 0.1.

    Source: upstream's `RandomNoise`.

    Example:
        >>> from grilly.utils.data import RandomNoise
        >>> RandomNoise(0.0)(np.ones(2)).tolist()
        [1.0, 1.0]
    """

    def __init__(self, std: float = 0.1) -> None:
        self.std = std

    def __call__(self, x: Any) -> Array:
        found: Array = x + np.float32(self.std) * np.random.standard_normal(np.shape(x)).astype(np.float32)
        return found


@closed("p")
class RandomFlip:
    """The last axis in reverse order with probability `p`, from NumPy's global generator.

    Args:
        p: The probability; default 0.5.

    Raises:
        InvalidArgumentError: `p` outside 0 .. 1.

    Source: upstream's `RandomFlip`.

    Example:
        >>> from grilly.utils.data import RandomFlip
        >>> RandomFlip(1.0)(np.array([1.0, 2.0])).tolist()
        [2.0, 1.0]
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = fraction("RandomFlip", "p", p)

    def __call__(self, x: Any) -> Array:
        return np.flip(x, axis=-1).copy() if np.random.random() < self.p else np.asarray(x)


@closed("num_classes")
class OneHot:
    """A class as a row of zeros with a one in its place.

    Args:
        num_classes: Columns.

    Raises:
        IndexOutOfRangeError: On call, a class outside (also an `IndexError`).

    Source: upstream's `OneHot`.

    Example:
        >>> from grilly.utils.data import OneHot
        >>> OneHot(3)(1).tolist()
        [0.0, 1.0, 0.0]
    """

    def __init__(self, num_classes: int) -> None:
        self.num_classes = whole("OneHot", "num_classes", num_classes)

    def __call__(self, y: Any) -> Array:
        place = int(y)
        if not 0 <= place < self.num_classes:
            raise IndexOutOfRangeError(f"OneHot: the class is {place}, expected 0 to {self.num_classes - 1}")
        row = np.zeros(self.num_classes, np.float32)
        row[place] = 1.0
        return row


@closed("fn")
class Lambda:
    """A function as a transform.

    Args:
        fn: The function.

    Source: upstream's `Lambda`.

    Example:
        >>> from grilly.utils.data import Lambda
        >>> Lambda(abs)(-2)
        2
    """

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self.fn = fn

    def __call__(self, x: Any) -> Any:
        return self.fn(x)
