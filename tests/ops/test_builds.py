"""Builds among which the number of rows decides give the same bits."""

import numpy as np
import pytest

from grilly import _core

ROWS, DEPTH, COLUMNS = 40, 1040, 72


@pytest.mark.parametrize(("levels", "per_byte", "most"), [("int8", 1, 255), ("ternary", 4, 2), ("binary", 8, 1)])
def test_products_of_integers_have_the_same_bits_in_every_build(device, levels, per_byte, most):
    """Of few rows, of many, and with a group as long as a row, which only the plain build takes."""
    engine, numbers = _core.engine(device), np.random.default_rng(3)
    q = numbers.integers(-128, 128, (ROWS, DEPTH)).astype(np.int8)
    codes = numbers.integers(0, most + 1, (COLUMNS, DEPTH // per_byte, per_byte))
    weight = (codes << (8 // per_byte * np.arange(per_byte))).sum(-1).astype(np.uint8)
    weight = weight.view(np.int8) if levels == "int8" else weight
    scale, weight_scale, bias = (numbers.uniform(1, 2, size).astype(np.float32) for size in (ROWS, COLUMNS, COLUMNS))

    def found(rows: int, scope: str | int) -> np.ndarray:
        scales = weight_scale if scope == "row" else weight_scale[:, None]
        operands = [engine.upload(x) for x in (q[:rows], scale[:rows], weight, scales, bias)]
        return engine.call("quantized_linear", operands, {"levels": levels, "scope": scope, "bias": True}).numpy()

    plain = found(ROWS, DEPTH)
    for rows in (1, 3, 15, 16, ROWS):
        assert found(rows, "row").tobytes() == plain[:rows].tobytes()
        assert found(rows, DEPTH).tobytes() == plain[:rows].tobytes()
