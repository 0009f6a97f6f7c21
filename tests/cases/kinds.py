"""What references and bounds take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Operands = list[np.ndarray]
Attributes = dict[str, Any]
Reference = Callable[[Operands, Attributes], Any]


def kinds(attributes: Attributes) -> tuple[str, float, float]:
    """An activation's kind and its two numbers."""
    return attributes["kind"], attributes.get("a", 1.0), attributes.get("b", 1.0)
