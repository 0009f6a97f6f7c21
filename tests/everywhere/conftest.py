"""The engine of a device, and a call beside the model's result."""

import pytest
from conftest import LONG

from . import operations
from .bert import Model
from .comparison import call_all, difference


@pytest.fixture(scope="session")
def engine(device):
    from grilly import _core

    engine = _core.engine(device)
    assert engine.backend == device
    return engine


@pytest.fixture
def same(engine):
    """`same(op, operands, **attributes)`: the first result on the device; the bits of all must be the model's."""

    def check(op, operands, **attributes):
        found = call_all(engine, op, operands, attributes)
        expected = operations.evaluate(op, operands, attributes)
        for number, pair in enumerate(
            zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True)
        ):
            problem = difference(*pair)
            assert problem is None, f"result {number} of {op} {attributes}: {problem}"
        return found[0]

    return check


@pytest.fixture(scope="session")
def minilm(real_model_path):
    """The model of the real weights."""
    return Model(real_model_path)


@pytest.fixture(scope="session")
def sample() -> list[int]:
    """Texts of the real weights: five, of which one is longer than a block of attention, or all 200."""
    return list(range(200)) if LONG else [0, 26, 30, 188, 196]
