"""Every function with arguments that mostly do not belong together: a result of its documented kind, or an exception of
grilly's that names the function's trouble; never an error of NumPy's or of the interpreter."""

import inspect
import zlib

import numpy as np
import pytest

import grilly
from grilly import errors, functional

CALLS = 170  # 10,000 together
SHAPES = ((), (0,), (2,), (4,), (2, 4), (4, 4), (2, 3, 4), (2, 3, 0), (1, 2, 3, 4), (2, 2, 2, 2, 2))
ODD = (None, True, -1, 0, 1, 2, 4, 2.5, float("nan"), float("inf"), 2**70, "mean", "text", b"x", [], [[1], [1, 2]], {},
       object(), (2, 4), np.int64(4), np.float32(0.5), 1j)  # fmt: skip


def odd(rng):
    """An array, an array on a device, or nearly anything else."""
    if rng.random() < 0.3:
        return ODD[rng.integers(len(ODD))]
    shape = SHAPES[rng.integers(len(SHAPES))]
    kind = rng.integers(10)
    x = rng.integers(-1, 3, shape) if kind < 2 else rng.standard_normal(shape)
    x = np.asarray(x).astype((np.int64, np.uint8, np.float16, bool)[kind] if kind < 4 else np.float32)
    return grilly.to_vulkan(x) if kind in (0, 8, 9) else x


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", functional.__all__)
def test_any_arguments(name):
    function = getattr(functional, name)
    parameters = [p for p in inspect.signature(function).parameters.values() if p.kind != p.VAR_KEYWORD]
    rng = np.random.default_rng([7, zlib.crc32(name.encode())])
    for _ in range(CALLS):
        given = {p.name: odd(rng) for p in parameters if p.default is p.empty or rng.random() < 0.3}
        said = ", ".join(f"{key}={getattr(x, 'shape', x)!r}:{getattr(x, 'dtype', '')}" for key, x in given.items())
        try:
            found = function(**given)
        except errors.GrillyError as error:
            assert str(error), said
            continue
        except Exception as error:  # noqa: BLE001
            pytest.fail(f"{name}({said}) raised {type(error).__name__}: {error}")
        for part in found if isinstance(found, tuple) else (found,):
            assert part is None or isinstance(part, int | np.ndarray | grilly.VulkanTensor), said
            np.asarray(part)
