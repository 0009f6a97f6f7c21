"""Quantisation of embeddings: the precisions of sentence-transformers, with its formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError
from grilly.inputs import logger, need_one_of
from grilly.tensors import as_array

__all__ = ["PRECISIONS", "quantize_embeddings"]

PRECISIONS = ("float32", "int8", "uint8", "binary", "ubinary")
# With fewer embeddings than this, their range is a poor estimate for others.
FEW = 100


def quantize_embeddings(
    embeddings: npt.ArrayLike | list[npt.NDArray[Any]],
    precision: str,
    ranges: npt.ArrayLike | None = None,
    calibration_embeddings: npt.ArrayLike | None = None,
) -> Any:
    """Quantises embeddings `(N, D)` to fewer bits.

    `int8` and `uint8` cut each column's range `[low, high]` into 255 steps: `q = floor((x - low) / step)`, clipped to
    0..255; `step = (high - low) / 255`, and 1 where that is 0; `int8` is `q - 128`. `ubinary` packs the signs `x > 0`,
    eight columns per byte, first column in the highest bit; `binary` is that minus 128. `float32` only converts.

    Args:
        embeddings: `(N, D)`, an array or a torch tensor; or a list of `(T, D)`, which share one range and give a list.
        precision: `"float32"`, `"int8"`, `"uint8"`, `"binary"` or `"ubinary"`.
        ranges: `(2, D)`, each column's low and high; default: those of `calibration_embeddings`.
        calibration_embeddings: `(M, D)`; default: `embeddings`, with a warning below 100 rows.

    Returns:
        `(N, D)` int8 or uint8, `(N, ceil(D / 8))` for the binary ones, `(N, D)` float32: arrays, for tensors too.

    Raises:
        InvalidArgumentError: An unknown precision, whole-number input, or a range from a single embedding.

    Source: `sentence_transformers.util.quantize_embeddings`, version 6.2.

    Example:
        >>> import numpy as np
        >>> from grilly.quantization import quantize_embeddings
        >>> x = np.array([[0.0, -0.5], [127.9, 255.0]], dtype=np.float32)
        >>> quantize_embeddings(x, "uint8", ranges=[[0, 0], [255, 255]])
        array([[  0,   0],
               [127, 255]], dtype=uint8)
        >>> quantize_embeddings(x, "ubinary")
        array([[  0],
               [192]], dtype=uint8)
    """
    need_one_of(precision, PRECISIONS, "precision")
    embeddings = [as_array(each) for each in embeddings] if isinstance(embeddings, list) else as_array(embeddings)
    if isinstance(embeddings, list) and embeddings and np.ndim(embeddings[0]) == 2:
        if ranges is None and precision.endswith("int8"):
            known = np.concatenate(embeddings) if calibration_embeddings is None else calibration_embeddings
            ranges = ranges_of(np.asarray(known), precision, calibration_embeddings is not None)
        return [quantize_embeddings(rows, precision, ranges) for rows in embeddings]
    rows = np.asarray(embeddings)
    if rows.dtype.kind in "iu":
        raise InvalidArgumentError(f"embeddings are of type {rows.dtype}, expected floating point")
    if precision == "float32":
        return rows.astype(np.float32)
    if precision.endswith("binary"):
        bits = np.packbits(rows > 0, axis=-1)
        return bits if precision == "ubinary" else (bits.astype(np.int16) - 128).astype(np.int8)
    if ranges is None:
        if rows.ndim == 2 and len(rows) == 0 and calibration_embeddings is None:
            return rows.astype(np.int8 if precision == "int8" else np.uint8)
        known = rows if calibration_embeddings is None else np.asarray(calibration_embeddings)
        ranges = ranges_of(known, precision, calibration_embeddings is not None)
    low, high = np.asarray(ranges, dtype=np.float32)
    step = (high - low) / 255
    step = np.where(step == 0, 1, step)
    levels = np.clip(np.floor((rows - low) / step), 0, 255)
    return levels.astype(np.uint8) if precision == "uint8" else (levels - 128).astype(np.int8)


def ranges_of(rows: npt.NDArray[Any], precision: str, calibrated: bool) -> npt.NDArray[Any]:
    """Each column's lowest and highest value, `(2, D)`."""
    if not calibrated:
        if rows.ndim == 1 or len(rows) == 1:
            raise InvalidArgumentError(
                f"precision {precision!r} needs the ranges of several embeddings, and there is one; call "
                "grilly.quantization.quantize_embeddings with ranges or calibration_embeddings"
            )
        if len(rows) < FEW:
            remedy = f"calibration_embeddings of at least {FEW} make them steadier"
            logger.warning("%s ranges come from only %d embeddings; %s", precision, len(rows), remedy)
    return np.stack([rows.min(axis=0), rows.max(axis=0)])
