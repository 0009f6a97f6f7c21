"""Times of a few calls, with the wait for their results, in a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from grilly import _core
from grilly.report.judgement import short

__all__ = ["TASKS", "measured", "seconds_of"]

#: Shortest time of repeated calls that is measured.
SECONDS = 0.2
#: Of what is copied, and of softmax.
COPIED, SOFTMAX = (4096, 4096), (4096, 1024)
#: Of a square product, and texts of attention, 128 tokens in 12 heads of 64 columns each; then of software drivers.
SIDES, TEXTS = (1024, 256), (8, 1)

#: A call, its size, how much it does, and the unit of that in a second.
Measured = tuple[Callable[[], object], Sequence[int], float, str]


def software(device: str) -> bool:
    engine = _core.engine(device)
    return engine.device in [row["name"] for row in _core.info()["devices"] if row["type"] == "software"]


def product(device: str, dtype: str) -> Measured:
    engine, side = _core.engine(device), SIDES[software(device)]
    x = engine.upload(np.ones((side, side), dtype))
    return lambda: engine.call("matmul", [x, x], {}), (side, side, side), 2 * side**3 / 1e9, "GFLOP/s"


def copy(device: str) -> Measured:
    """Bytes read and written."""
    engine = _core.engine(device)
    x = engine.upload(np.ones(COPIED, np.float32))
    return lambda: engine.call("activation", [x], {"kind": "identity"}), COPIED, 2 * x.nbytes / 1e9, "GB/s"


def upload(device: str) -> Measured:
    engine, x = _core.engine(device), np.ones(COPIED, np.float32)
    return lambda: engine.upload(x), COPIED, x.nbytes / 1e9, "GB/s"


def download(device: str) -> Measured:
    x = _core.engine(device).upload(np.ones(COPIED, np.float32))
    return x.numpy, COPIED, x.nbytes / 1e9, "GB/s"


def softmax(device: str) -> Measured:
    engine = _core.engine(device)
    x = engine.upload(np.ones(SOFTMAX, np.float32))
    return lambda: engine.call("softmax", [x], {}), SOFTMAX, 2 * x.nbytes / 1e9, "GB/s"


def attention(device: str, dtype: str) -> Measured:
    engine, size = _core.engine(device), (TEXTS[software(device)], 128, 12, 64)
    texts, tokens, heads, width = size
    x = engine.upload(np.ones((texts * tokens, heads * width), dtype))
    bounds = engine.upload(np.arange(texts + 1, dtype=np.int32) * tokens)
    given = {"heads": heads, "kv_heads": heads, "head_dim": width, "scale": width**-0.5}
    work = 4 * texts * heads * tokens**2 * width / 1e9
    return lambda: engine.call("attention", [x, x, x, bounds, bounds], given), size, work, "GFLOP/s"


#: By name, what is timed on a device.
TASKS: dict[str, Callable[[str], Measured]] = {
    "matmul float32": partial(product, dtype="float32"),
    "matmul float16": partial(product, dtype="float16"),
    "copy": copy,
    "upload": upload,
    "download": download,
    "softmax": softmax,
    "attention float32": partial(attention, dtype="float32"),
    "attention float16": partial(attention, dtype="float16"),
}


def measured(task: Callable[[str], Measured], device: str) -> dict[str, Any]:
    """A speed with its unit, and the seconds of a call.

    Example:
        >>> from grilly.report import timings
        >>> timings.measured(timings.softmax, "cpu")["unit"]
        'GB/s'
    """
    call, size, work, unit = task(device)
    engine = _core.engine(device)
    seconds = seconds_of(call, engine.synchronize)
    told = {"ran_on": engine.backend, "size": "x".join(map(str, size))}
    return told | {"speed": short(work / seconds), "unit": unit, "seconds": short(seconds)}


def seconds_of(call: Callable[[], object], wait: Callable[[], None]) -> float:
    """Of one call, of so many as take long enough to be measured; the first one is not counted.

    Example:
        >>> import time
        >>> from grilly.report.timings import seconds_of
        >>> seconds_of(lambda: time.sleep(0.05), lambda: None) >= 0.05
        True
    """
    call()
    wait()
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            call()
        wait()
        taken = time.perf_counter() - start
        if taken >= SECONDS:
            return taken / count
        count = max(2 * count, int(count * 1.2 * SECONDS / max(taken, 1e-6)))
