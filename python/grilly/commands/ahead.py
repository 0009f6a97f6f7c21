"""Iterators that run ahead of the thread that takes their items, and calls that run beside the one that makes them."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from grilly.closed import closed

__all__ = ["Ahead", "Behind", "beside"]

Item = TypeVar("Item")
Made = TypeVar("Made")
#: Seconds after which a thread that waits looks whether it should stop.
LOOK = 0.1


class _End:
    """What follows the last item of an iterator: the error that ended it, or None."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Stopped(Exception):
    """Raised in a thread of an iterator that is no longer wanted."""


@closed()
class Ahead(Generic[Item]):
    """Items of several iterators, in turns: the first of each, then the second of each, and so on.

    Each iterator runs in its own thread, up to `most` items ahead; its error is raised where its next item would be.

    Args:
        sources: Generators, which are closed in their threads.
        most: Items of each that wait at most.
        stop: Set when this ends; several that feed each other share one.

    Example:
        >>> import threading
        >>> from grilly.commands.ahead import Ahead
        >>> with Ahead([(n * n for n in range(3)), (-n for n in range(2))], 2, threading.Event()) as found:
        ...     list(found)
        [0, 0, 1, -1, 4]
    """

    def __init__(self, sources: Sequence[Iterator[Item]], most: int, stop: threading.Event) -> None:
        self._stop = stop
        self._queues: list[queue.Queue[Any]] = [queue.Queue(most) for _ in sources]
        self._left = list(self._queues)  # of iterators that have not ended, the one whose turn it is first
        # Reading a file may take long: no thread keeps the process from its end.
        self._threads = [
            threading.Thread(target=self._run, args=given, daemon=True)
            for given in zip(sources, self._queues, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, source: Any, own: queue.Queue[Any]) -> None:
        end = _End(None)
        try:
            for item in source:
                self._put(own, item)
        except BaseException as error:  # raised again by the thread that takes the items
            end = _End(error)
        finally:
            source.close()
        try:
            self._put(own, end)
        except _Stopped:
            pass

    def _put(self, own: queue.Queue[Any], item: Any) -> None:
        while not self._stop.is_set():
            try:
                return own.put(item, timeout=LOOK)
            except queue.Full:
                pass
        raise _Stopped

    def __iter__(self) -> Ahead[Item]:
        return self

    def __next__(self) -> Item:
        while self._left:
            own = self._left.pop(0)
            while True:
                try:
                    found = own.get(timeout=LOOK)
                    break
                except queue.Empty:
                    if self._stop.is_set():
                        raise _Stopped from None
            if not isinstance(found, _End):
                self._left.append(own)
                item: Item = found
                return item
            if found.error is not None:
                raise found.error
        raise StopIteration

    def ready(self) -> bool:
        """Whether the next item, or the end of an iterator, is there."""
        return bool(self._left) and not self._left[0].empty()

    def join(self) -> None:
        """Stops the threads, and returns when their iterators are closed."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Ahead[Item]:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()


@closed()
class Behind(Generic[Item]):
    """A function that runs in a thread while its caller goes on: a call waits for the one before, and raises its error.

    Example:
        >>> from grilly.commands.ahead import Behind
        >>> found = []
        >>> with Behind(found.append) as add:
        ...     add(1)
        ...     add(2)
        >>> found
        [1, 2]
    """

    def __init__(self, function: Callable[[Item], object]) -> None:
        self._function = function
        self._threads = ThreadPoolExecutor(1)
        self._last: Future[object] | None = None

    def __call__(self, item: Item) -> None:
        self._wait()
        self._last = self._threads.submit(self._function, item)

    def _wait(self) -> None:
        if self._last is not None:
            self._last.result()

    def __enter__(self) -> Behind[Item]:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self._threads.shutdown()
        if kind is None:
            self._wait()


def beside(
    function: Callable[[Item], Made], items: Iterator[Item], most: int
) -> Generator[tuple[Item, Made], None, None]:
    """Items in their order, with what a function makes of each; up to `most` of its calls run beside each other.

    Example:
        >>> from grilly.commands.ahead import beside
        >>> list(beside(str.upper, iter("abc"), 2))
        [('a', 'A'), ('b', 'B'), ('c', 'C')]
    """
    if most == 1:
        yield from ((item, function(item)) for item in items)
        return
    waiting: deque[tuple[Item, Future[Made]]] = deque()
    with ThreadPoolExecutor(most) as threads:
        try:
            for item in items:
                waiting.append((item, threads.submit(function, item)))
                if len(waiting) == most:
                    first, made = waiting.popleft()
                    yield first, made.result()
            while waiting:
                first, made = waiting.popleft()
                yield first, made.result()
        finally:
            for _, made in waiting:
                made.cancel()
