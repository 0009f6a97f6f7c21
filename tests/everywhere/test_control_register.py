"""The hashes hold whatever the caller's thread makes of subnormal numbers and rounding."""

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from conftest import LONG

from . import classes
from .test_classes import HASHES, ROWS

#: Of x86-64: to round down, and to take subnormal operands and results for zero.
DOWN, ZEROS = 0x2000, 0x8040
#: The place of that register among the words of the C library's floating-point environment.
MXCSR = 7
SOME = (
    "family:bert",
    "family:mpnet",
    "family:llama",
    "states:t5",
    "ternary:bitnet",
    "scores:bert",
    "words:bert",
    "static",
)

pytestmark = pytest.mark.skipif(
    (platform.machine(), platform.libc_ver()[0]) != ("x86_64", "glibc"), reason="the register of x86-64, by glibc"
)


@contextmanager
def altered() -> Iterator[None]:
    """This thread rounds down and has no subnormal numbers; threads that it starts have its register."""
    library = ctypes.CDLL(None)
    before, changed = ((ctypes.c_uint32 * 8)() for _ in "ab")
    assert library.fegetenv(before) == library.fegetenv(changed) == 0
    changed[MXCSR] |= DOWN | ZEROS
    assert library.fesetenv(changed) == 0
    try:
        yield
    finally:
        assert library.fesetenv(before) == 0


def computed() -> tuple[np.float32, np.float32]:
    """A product below the normal numbers, and a sum that rounding down changes."""
    one, small = np.ones(1, np.float32), np.full(1, 2.0**-126, np.float32)
    return (small * np.float32(0.5))[0], (one + np.float32(0.75 * 2.0**-23))[0]


def test_the_register_is_altered():
    with altered():
        small, above = computed()
    assert (small, above) == (0, 1)
    small, above = computed()
    assert small > 0 and above > 1


@pytest.mark.parametrize("name", [name for name in ROWS if LONG or name in SOME])
def test_a_model_has_the_hash(name, device, tmp_path):
    """Read and run in such a thread, and run in one of a model that was read in another."""
    if device != "cpu" and name != "family:bert":
        pytest.skip("the device's numbers hang on no register of the host; what the host computes is the CPU's")
    row = ROWS[name]
    folder = row.build(tmp_path)
    with classes.opened(row, folder, device) as model:
        with altered():
            answer = row.answer(model, classes.CHOSEN)
        assert classes.hash_of(answer) == HASHES[name]
    with altered():
        model = classes.opened(row, folder, device)
        answer = row.answer(model, classes.CHOSEN)
    with model:
        assert classes.hash_of(answer) == HASHES[name]
        assert classes.hash_of(row.answer(model, classes.CHOSEN)) == HASHES[name]
