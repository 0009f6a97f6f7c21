"""Operations on rows in both types, for `cliffs.py --part types`: of each width, beside a copy in the same type."""

from __future__ import annotations

from typing import Any

import numpy as np
from cliff_rows import BESIDE, BOUNDS, Table, cell

__all__ = ["BESIDE", "measure"]

WIDTHS = (64, 312, 384, 768, 1000, 1002, 1024, 1152, 2048, 4096, 8200, 30_522)
OPS = ["layer_norm", "rms_norm", "softmax"]


def measure(engine: Any, rounds: int, elements: int) -> tuple[dict[str, Table], dict[str, dict[str, float | None]]]:
    """Tables of multiples by operation and width, each of both types, and their gates, which are none."""
    values = np.random.default_rng(0).standard_normal(elements, np.float32)
    tables: dict[str, Table] = {}
    for width in WIDTHS:
        for dtype in BOUNDS:
            ratios = cell(engine, (max(1, elements // width), width), OPS, values, rounds, dtype)
            for op, ratio in ratios.items():
                tables.setdefault(f"{op} {width}", {})[dtype] = ratio
    return tables, {name: dict.fromkeys(table) for name, table in tables.items()}
