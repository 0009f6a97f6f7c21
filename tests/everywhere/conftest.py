"""The engine of a device, and a call beside the model's result."""

import pytest
from conftest import LONG

from . import operations
from .bert import Model
from .comparison import call, difference


@pytest.fixture(scope="session")
def engine(device):
    from grilly import _core

    engine = _core.engine(device)
    assert engine.backend == device
    return engine


@pytest.fixture
def same(engine):
    """`same(op, operands, **attributes)`: the result on the device, whose bits must be the model's."""

    def check(op, operands, **attributes):
        found = call(engine, op, operands, attributes)
        problem = difference(found, operations.evaluate(op, operands, attributes))
        assert problem is None, f"{op} {attributes}: {problem}"
        return found

    return check


@pytest.fixture(scope="session")
def minilm(real_model_path):
    """The model of the real weights."""
    return Model(real_model_path)


@pytest.fixture(scope="session")
def sample() -> list[int]:
    """Texts of the real weights: five, of which one is longer than a block of attention, or all 200."""
    return list(range(200)) if LONG else [0, 26, 30, 188, 196]
