"""Writes the op-case table for the Rust tests: operands, float64 results and how far from them a plan may be.

`python tests/export_cases.py FILE`, which `make test-rust` runs whenever tests/cases has changed. The file is of the
safetensors format and lists its rows in `__metadata__`. A row of float16 is there a second time, rounded to bfloat16,
which NumPy has not, unless its op names a type. Rows with an axis of size 0 are left out: arrays answer these without
a plan.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from cases import CASES, OpCase
from cases.bounds import bound
from cases.reference import evaluate
from models import safetensors_file

Arrays = list[np.ndarray]
HALF = np.dtype(np.float16)
#: Half a unit in the last place of 1, and half the smallest step.
UNITS = {"float16": (2.0**-11, 2.0**-25), "bfloat16": (2.0**-8, 2.0**-134)}
#: Tables that a plan adds before it stores what it has.
TABLES = 3


def tuples(found: Any) -> tuple[np.ndarray, ...]:
    return found if isinstance(found, tuple) else (found,)


def forms(case: OpCase) -> Iterator[tuple[str, Arrays, list[str]]]:
    """A row's name, operands and their types as it stands, and with bfloat16 in place of float16."""
    operands = case.operands()
    types = [value.dtype.name for value in operands]
    yield case.id, operands, types
    if "float16" in types and "to" not in case.attributes:
        rounded = [rounded_to_bfloat16(value) if value.dtype == HALF else value for value in operands]
        yield f"{case.id}-bfloat16", rounded, ["bfloat16" if name == "float16" else name for name in types]


def rounded_to_bfloat16(values: np.ndarray) -> np.ndarray:
    data = safetensors_file.to_bytes(values, "BF16")
    return safetensors_file.from_bytes(data, "BF16").reshape(values.shape)


def rounded_up(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.nextafter(values.astype(np.float32), np.float32(np.inf))


def bounds(case: OpCase, operands: Arrays, y: Any, stored: str) -> tuple[Any, Any]:
    """Of results in float32, and of results that are stored in 16 bits, where there are any."""
    wide = bound(case.op, operands, case.attributes, y, False)
    if stored == "float32":
        return wide, None
    half = bound(case.op, operands, case.attributes, y, True)
    if isinstance(y, tuple):
        results = zip(wide, half, y, strict=True)
        return wide, tuple(narrowed(case, operands, of, of_half, own, stored) for of, of_half, own in results)
    return wide, narrowed(case, operands, wide, half, y, stored)


def narrowed(case: OpCase, operands: Arrays, wide: Any, half: Any, y: np.ndarray, stored: str) -> np.ndarray:
    """The bound of a result stored in 16 bits, from those of float32 and of float16."""
    with np.errstate(invalid="ignore"):
        (unit, step), (own, least) = UNITS[stored], UNITS["float16"]
        # What float16 loses before the result is stored; other types as much more as their units are larger.
        kept = (half - least - own * np.abs(y)) / (1 + own)
        before = wide + unit / own * np.maximum(kept - wide, 0)
        if case.op == "embedding_sum":  # what is stored before further tables are added to it
            magnitudes = [abs(value) if place % 2 else value for place, value in enumerate(operands)]
            for count in range(2 * TABLES, len(operands), 2 * TABLES):
                before = before + 1.01 * unit * evaluate(case.op, magnitudes[:count], {}) + step
        return before + unit * (np.abs(y) + before) + step


def main(path: Path) -> None:
    tensors, rows = {}, []
    for case in CASES:
        for name, operands, types in forms(case):
            expected = evaluate(case.op, operands, case.attributes)
            if any(value.size == 0 for value in (*operands, *tuples(expected))):
                continue
            stored = next((kind for kind in types if kind in UNITS), "float32")
            wide, narrow = bounds(case, operands, expected, stored)
            for place, value in enumerate(operands):
                tensors[f"{name}/{place}"] = value.astype(np.float32) if value.dtype == HALF else value
            parts = {"y": expected, "bound": wide} | ({} if narrow is None else {"narrow": narrow})
            for part, values in parts.items():
                for place, (value, y) in enumerate(zip(tuples(values), tuples(expected), strict=True)):
                    whole = np.broadcast_to(np.asarray(value, np.float64), y.shape)
                    tensors[f"{name}/{part} {place}"] = whole if part == "y" else rounded_up(whole)
            rows.append({"name": name, "op": case.op, "attributes": case.attributes, "types": types})
    path.parent.mkdir(parents=True, exist_ok=True)
    safetensors_file.write(path, tensors, None, {"rows": json.dumps(rows)})
    print(f"{path}: {len(rows)} rows, {path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
