"""What follows a model's plan where numbers are the same everywhere: operations on the CPU in place of NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grilly import _core
from grilly.tensors import normalize_rows

__all__ = ["EVERYWHERE", "computed"]

#: The mode with the version of its numbers.
EVERYWHERE = "everywhere-1"


def computed(operation: str, rows: npt.NDArray[np.float32], **attributes: Any) -> npt.NDArray[np.float32]:
    """An operation on rows `(N, D)`, float32, whose result has the same bits on every machine.

    Args:
        operation: A name of `grilly.functional` that `numerics="everywhere"` covers.
        rows: The operand.
        **attributes: Those of the operation.

    Returns:
        `(N, D)`, float32.

    Raises:
        UnsupportedError: The mode does not cover the operation.

    Example:
        >>> import numpy as np
        >>> from grilly.everywhere import computed
        >>> computed("softmax", np.float32([[0.0, 0.0]])).tolist()
        [[0.5, 0.5]]
    """
    engine = _core.engine("cpu")
    operand = engine.upload(np.asarray(rows, dtype=np.float32, order="C"))
    result: npt.NDArray[np.float32] = engine.call(operation, [operand], attributes, None, EVERYWHERE).numpy()
    return result


def normalized(rows: npt.NDArray[np.float32], numerics: str) -> npt.NDArray[np.float32]:
    """Rows divided by `max(norm, 1e-12)`, by what a model's numbers mean.

    Example:
        >>> import numpy as np
        >>> from grilly.everywhere import normalized
        >>> normalized(np.float32([[3.0, 4.0]]), "run").tolist() == [[np.float32(0.6), np.float32(0.8)]]
        True
    """
    return computed("normalize", rows) if numerics == EVERYWHERE else normalize_rows(rows)
