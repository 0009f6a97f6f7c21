"""Every primitive operation of the array engine in float64 NumPy: what the kernels are held against.

A reference takes `(operands, attributes)`, float operands already as float64 and whole numbers as they are, and returns
float64, of an operation with several results a tuple. It stands in its family's file, is written for clarity, follows
the formulas in the comments of src/ops/, and shares no code with the package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Operands = list[np.ndarray]
Attributes = dict[str, Any]
Reference = Callable[[Operands, Attributes], Any]

#: By operation; the families' files fill it.
REFERENCES: dict[str, Reference] = {}


def reference(function: Reference) -> Reference:
    """That of the operation whose name the function has."""
    REFERENCES[function.__name__] = function
    return function


def evaluate(op: str, operands: Operands, attributes: Attributes) -> Any:
    """The reference of `op`, with float operands raised to float64."""
    wide = [value.astype(np.float64) if value.dtype.kind == "f" else value for value in operands]
    with np.errstate(all="ignore"):
        return REFERENCES[op](wide, attributes)
