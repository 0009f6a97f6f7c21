"""The two types of 8-bit floating-point numbers in NumPy: what each byte stands for, and the nearest byte."""

import numpy as np


def numbers(kind: str) -> np.ndarray:
    """The number of each of the 256 bytes, of `F8_E4M3` (no infinity) or `F8_E5M2`; NaN for what is none."""
    bits = 3 if kind == "F8_E4M3" else 2
    byte = np.arange(256)
    exponent, part = (byte & 0x7F) >> bits, (byte & (1 << bits) - 1) / (1 << bits)
    least = 1 - ((1 << 6 - bits) - 1)
    size = np.where(exponent > 0, (1 + part) * 2.0 ** (exponent + least - 1), part * 2.0**least)
    if kind == "F8_E4M3":
        size[byte & 0x7F == 0x7F] = np.nan
    else:
        size[exponent == 31] = np.where(part[exponent == 31] == 0, np.inf, np.nan)
    return np.where(byte < 128, size, -size).astype(np.float32)


def nearest(array: np.ndarray, kind: str) -> np.ndarray:
    """The byte of a nearest finite number, for each number."""
    table = numbers(kind)
    order = np.argsort(np.where(np.isfinite(table), table, np.inf), kind="stable")[: np.isfinite(table).sum()]
    known = table[order]
    place = np.clip(np.searchsorted(known, array), 1, len(known) - 1)
    place -= array - known[place - 1] < known[place] - array
    return order[place].astype(np.uint8)
