"""Batches of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from grilly.closed import closed
from grilly.compat.upstream.utils.data.samplers import BatchSampler, RandomSampler, SequentialSampler
from grilly.errors import InvalidArgumentError
from grilly.functional.checks import whole

__all__ = ["DataLoader", "default_collate"]


def default_collate(batch: Sequence[Any]) -> Any:
    """The samples of a batch as arrays: of tuples a tuple of arrays, of dicts a dict of arrays.

    Args:
        batch: Samples of equal shapes.

    Returns:
        Arrays with the samples along their first axis; samples that are not numbers as a list.

    Source: upstream's `default_collate`.

    Example:
        >>> from grilly.utils.data import default_collate
        >>> default_collate([(np.ones(2), 3), (np.ones(2), 4)])[1].tolist()
        [3, 4]
    """
    first = batch[0]
    if isinstance(first, tuple):
        return tuple(default_collate(parts) for parts in zip(*batch, strict=True))
    if isinstance(first, dict):
        return {name: default_collate([sample[name] for sample in batch]) for name in first}
    if isinstance(first, np.ndarray | np.generic | int | float):
        return np.stack([np.asarray(sample) for sample in batch])
    return list(batch)


@closed("dataset", "batch_sampler", "num_workers", "collate_fn")
class DataLoader:
    """Batches of a dataset; each pass over it gives all samples once.

    Args:
        dataset: A dataset, or anything with a length and `[]`.
        batch_size: Samples of a batch; default 1.
        shuffle: Whether their order is random, another one in each pass; default False.
        sampler: An iterable of their numbers in place of `shuffle`; default none.
        batch_sampler: An iterable of lists of numbers in place of the three before and `drop_last`; default none.
        num_workers: Threads that read the samples of a batch; default 0, none. The result is the same.
        collate_fn: A function of a list of samples; default `default_collate`.
        drop_last: Whether a last, smaller batch is left out; default False.
        generator: NumPy's generator for `shuffle`; default one seeded in each pass from the global one, so that
            `numpy.random.seed` makes it reproducible.

    Raises:
        InvalidArgumentError: A size below 1, or a sampler beside what it replaces.

    Source: upstream's and torch's `DataLoader`.

    Example:
        >>> from grilly.utils.data import DataLoader, TensorDataset
        >>> loader = DataLoader(TensorDataset(np.arange(5), np.arange(5) % 2), batch_size=2)
        >>> [(x.tolist(), y.tolist()) for x, y in loader]
        [([0, 1], [0, 1]), ([2, 3], [0, 1]), ([4], [0])]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        drop_last: bool = False,
        *,
        generator: np.random.Generator | None = None,
    ) -> None:
        if sampler is not None and shuffle or batch_sampler is not None and (shuffle or sampler is not None):
            raise InvalidArgumentError("DataLoader: give one of shuffle, sampler and batch_sampler")
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.num_workers = whole("DataLoader", "num_workers", num_workers, least=0)
        self.collate_fn = collate_fn or default_collate
        if batch_sampler is None:
            if sampler is None:
                sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.sampler, self.batch_sampler = sampler, batch_sampler

    def __iter__(self) -> Iterator[Any]:
        if not self.num_workers:
            for numbers in self.batch_sampler:
                yield self.collate_fn([self.dataset[number] for number in numbers])
            return
        with ThreadPoolExecutor(self.num_workers) as threads:
            for numbers in self.batch_sampler:
                yield self.collate_fn(list(threads.map(self.dataset.__getitem__, numbers)))

    def __len__(self) -> int:
        return len(self.batch_sampler)
