"""Datasets: samples by their number."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import IndexOutOfRangeError, InvalidArgumentError
from grilly.functional.dropout import draw_seed

__all__ = ["ArrayDataset", "ConcatDataset", "Dataset", "Subset", "TensorDataset", "random_split"]


class Dataset:
    """The base of datasets: a subclass defines `__len__` and `__getitem__`.

    Source: upstream's and torch's `Dataset`.

    Example:
        >>> from grilly.utils.data import DataLoader, Dataset
        >>> class Squares(Dataset):
        ...     def __len__(self):
        ...         return 4
        ...     def __getitem__(self, index):
        ...         return np.float32(index * index)
        >>> [batch.tolist() for batch in DataLoader(Squares(), batch_size=3)]
        [[0.0, 1.0, 4.0], [9.0]]
    """

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no __len__")

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")


class TensorDataset(Dataset):
    """Samples that are rows of arrays: `(a[i], b[i], ...)`.

    Args:
        *tensors: Arrays of equal length.

    Raises:
        InvalidArgumentError: No array, or arrays of different lengths.

    Source: upstream's and torch's `TensorDataset`.

    Example:
        >>> from grilly.utils.data import TensorDataset
        >>> TensorDataset(np.array([[1.0], [2.0]]), np.array([0, 1]))[1]
        (array([2.]), np.int64(1))
    """

    def __init__(self, *tensors: npt.NDArray[Any]) -> None:
        lengths = [len(tensor) for tensor in tensors]
        if len(set(lengths)) != 1:
            raise InvalidArgumentError(f"TensorDataset: the arrays have {lengths} rows, expected as many in each")
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return tuple(tensor[index] for tensor in self.tensors)


class ArrayDataset(Dataset):
    """Rows of an array, with labels and transforms of both.

    Args:
        data: The array.
        labels: As many labels; default none, and samples are rows alone.
        transform: A function of a row; default none.
        target_transform: A function of a label; default none.

    Raises:
        InvalidArgumentError: Another number of labels than of rows.

    Source: upstream's `ArrayDataset`.

    Example:
        >>> from grilly.utils.data import ArrayDataset, OneHot
        >>> ArrayDataset(np.array([1.0, 2.0]), np.array([0, 1]), lambda x: 10 * x, OneHot(2))[1]
        (np.float64(20.0), array([0., 1.], dtype=float32))
    """

    def __init__(
        self,
        data: Any,
        labels: Any = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        if labels is not None and len(labels) != len(data):
            raise InvalidArgumentError(f"ArrayDataset: there are {len(labels)} labels, expected {len(data)}")
        self.data, self.labels = data, labels
        self.transform, self.target_transform = transform, target_transform

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        row = self.data[index] if self.transform is None else self.transform(self.data[index])
        if self.labels is None:
            return row
        label = self.labels[index]
        return row, label if self.target_transform is None else self.target_transform(label)


class Subset(Dataset):
    """Some samples of a dataset.

    Args:
        dataset: The dataset.
        indices: Their numbers.

    Source: upstream's and torch's `Subset`.

    Example:
        >>> from grilly.utils.data import ArrayDataset, Subset
        >>> Subset(ArrayDataset(np.arange(10)), [7, 3])[0]
        np.int64(7)
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[self.indices[index]]


class ConcatDataset(Dataset):
    """Datasets one after the other.

    Args:
        datasets: The datasets.

    Raises:
        IndexOutOfRangeError: On access, a number outside (also an `IndexError`).

    Source: upstream's and torch's `ConcatDataset`.

    Example:
        >>> from grilly.utils.data import ArrayDataset, ConcatDataset
        >>> both = ConcatDataset([ArrayDataset(np.arange(3)), ArrayDataset(np.arange(10, 12))])
        >>> len(both), int(both[3]), int(both[-1])
        (5, 10, 11)
    """

    def __init__(self, datasets: Sequence[Any]) -> None:
        self.datasets = list(datasets)
        self.cumulative_sizes = list(accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1] if self.cumulative_sizes else 0

    def __getitem__(self, index: int) -> Any:
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexOutOfRangeError(f"ConcatDataset: index is {index}, and there are {len(self)} samples")
        which = bisect_right(self.cumulative_sizes, place)
        return self.datasets[which][place - (self.cumulative_sizes[which - 1] if which else 0)]


def random_split(dataset: Any, lengths: Sequence[int], generator: np.random.Generator | None = None) -> list[Subset]:
    """Divides a dataset at random.

    Args:
        dataset: The dataset.
        lengths: Samples of each part, all samples together.
        generator: NumPy's generator of the order; default one seeded from the global one, so that `numpy.random.seed`
            makes it reproducible.

    Returns:
        The parts.

    Raises:
        InvalidArgumentError: Another number of samples.

    Source: upstream's and torch's `random_split`.

    Example:
        >>> from grilly.utils.data import ArrayDataset, random_split
        >>> a, b = random_split(ArrayDataset(np.arange(10)), [7, 3])
        >>> sorted([*map(int, a), *map(int, b)])
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    if sum(lengths) != len(dataset) or min(lengths, default=0) < 0:
        raise InvalidArgumentError(f"random_split: lengths is {list(lengths)}, expected a sum of {len(dataset)}")
    order = (generator or np.random.default_rng(draw_seed())).permutation(len(dataset)).tolist()
    ends = list(accumulate(lengths))
    return [Subset(dataset, order[end - length : end]) for length, end in zip(lengths, ends, strict=True)]
