"""Samplers: the order of the samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from grilly.closed import closed
from grilly.errors import InvalidArgumentError
from grilly.functional.checks import whole
from grilly.functional.dropout import draw_seed

__all__ = ["BatchSampler", "RandomSampler", "SequentialSampler"]


@closed("data_source")
class SequentialSampler:
    """The samples in their order.

    Args:
        data_source: The dataset.

    Source: upstream's and torch's `SequentialSampler`.

    Example:
        >>> from grilly.utils.data import SequentialSampler
        >>> list(SequentialSampler("abc"))
        [0, 1, 2]
    """

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


@closed("data_source", "replacement", "generator")
class RandomSampler:
    """The samples in a random order, another one in each pass.

    Args:
        data_source: The dataset.
        replacement: Whether each is drawn among all; default False.
        num_samples: How many are drawn; needs `replacement`. Default as many as there are.
        generator: NumPy's generator; default one seeded in each pass from the global one, so that `numpy.random.seed`
            makes it reproducible.

    Raises:
        InvalidArgumentError: `num_samples` without `replacement`.

    Source: upstream's and torch's `RandomSampler`.

    Example:
        >>> from grilly.utils.data import RandomSampler
        >>> sorted(RandomSampler("abc", generator=np.random.default_rng(0)))
        [0, 1, 2]
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: np.random.Generator | None = None,
    ) -> None:
        if num_samples is not None and not replacement:
            raise InvalidArgumentError("RandomSampler: num_samples needs replacement=True")
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = None if num_samples is None else whole("RandomSampler", "num_samples", num_samples)

    @property
    def num_samples(self) -> int:
        """How many samples are drawn."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        numbers, count = self.generator or np.random.default_rng(draw_seed()), len(self.data_source)
        order = numbers.integers(0, count, self.num_samples) if self.replacement else numbers.permutation(count)
        return iter(order.tolist())

    def __len__(self) -> int:
        return self.num_samples


@closed("sampler", "batch_size", "drop_last")
class BatchSampler:
    """Lists of `batch_size` numbers of another sampler.

    Args:
        sampler: The sampler, or a number of samples.
        batch_size: Numbers in each list.
        drop_last: Whether a last, shorter list is left out; default False.
        shuffle: With a number of samples, whether their order is random; default False.

    Raises:
        InvalidArgumentError: A size below 1.

    Source: upstream's and torch's `BatchSampler`.

    Example:
        >>> from grilly.utils.data import BatchSampler
        >>> list(BatchSampler(5, 2))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self, sampler: Iterable[int] | int, batch_size: int, drop_last: bool = False, shuffle: bool = False
    ) -> None:
        if isinstance(sampler, int):
            sampler = RandomSampler(range(sampler)) if shuffle else SequentialSampler(range(sampler))
        self.sampler: Any = sampler
        self.batch_size = whole("BatchSampler", "batch_size", batch_size)
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        rest = 0 if self.drop_last else self.batch_size - 1
        return (len(self.sampler) + rest) // self.batch_size
