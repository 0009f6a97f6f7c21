"""The progress bar."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(total: int, shown: bool | None) -> Iterator[Callable[[int], object] | None]:
    """Yields a callback for the number of texts done, or None without a bar."""
    if shown is None:
        shown = logging.getLogger("grilly").isEnabledFor(logging.INFO)
    if not shown:
        yield None
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, desc="Texts", unit="text") as bar:
        yield lambda done: bar.update(done - bar.n)
