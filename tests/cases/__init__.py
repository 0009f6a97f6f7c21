"""The table of operation cases: one source for the tests of values, gradients, repeats and guard bands.

A family's file holds all that the table says of an operation: its rows, its reference in float64 and its bound.
"""

from cases import (
    activations,
    attending,
    attending_backward,
    attention_parts,
    compositions,
    convolutions,
    edges,
    elementwise,
    experts,
    fused,
    fused_products,
    gathering,
    growth,
    hebbian,
    moments,
    products,
    quantized,
    rows,
    search,
    softmaxes,
    training,
)
from cases.table import OpCase

FAMILIES = (
    activations, elementwise, softmaxes, compositions, rows, products, attention_parts, attending, attending_backward,
    gathering, search, experts, fused, fused_products, quantized, training, hebbian, moments, growth, edges,
    convolutions,
)  # fmt: skip
CASES: list[OpCase] = [case for family in FAMILIES for case in family.cases()]

__all__ = ["CASES", "OpCase"]
