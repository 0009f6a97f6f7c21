"""A row has the same bits whatever the number of rows, which decides how many invocations and workgroups share one."""

import numpy as np
import pytest

from grilly import _core

#: Columns of a row that few invocations share, of one that a workgroup shares, and of rows in parts, that start at a
#: multiple of four elements or do not; and rows that are as many workgroups as long rows need to be one each.
WIDTHS = {64: 65_536, 384: 9000, 1002: 3000, 1152: 3000, 8200: 600, 20_000: 520, 30_521: 520}
#: The number of operands, and of results.
OPS = {
    "layer_norm": (3, 1),
    "rms_norm": (2, 1),
    "softmax": (1, 1),
    "quantize_rows": (1, 2),
    "layer_norm_backward": (3, 1),
    "softmax_backward": (2, 1),
}
#: Operands that have the rows' shape.
OF_ROWS = {"layer_norm_backward": 2, "softmax_backward": 2}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("op", OPS)
def test_a_row_has_the_same_bits_beside_any_number_of_rows(device, op, width):
    engine, numbers = _core.engine(device), np.random.default_rng(width)
    operands, results = OPS[op]
    of_rows = OF_ROWS.get(op, 1)
    given = [numbers.standard_normal((WIDTHS[width], width), np.float32) for _ in range(of_rows)]
    vectors = [engine.upload(numbers.standard_normal(width, np.float32)) for _ in range(operands - of_rows)]

    def first(rows: int) -> bytes:
        arrays = [engine.upload(np.ascontiguousarray(x[:rows])) for x in given]
        found = engine.call_all(op, [*arrays, *vectors], {})
        assert len(found) == results
        return b"".join(result.numpy()[0].tobytes() for result in found)

    alone = first(1)
    for rows in (64, WIDTHS[width]):
        assert first(rows) == alone, rows
