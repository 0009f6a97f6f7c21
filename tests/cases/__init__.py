"""The table of operation cases: one source for the tests of values, gradients, repeats and guard bands."""

from cases import attending, edges, elementwise, fused, gathering, products, rows, training
from cases.table import OpCase

CASES: list[OpCase] = [
    case
    for family in (elementwise, rows, products, attending, gathering, fused, training, edges)
    for case in family.cases()
]

__all__ = ["CASES", "OpCase"]
