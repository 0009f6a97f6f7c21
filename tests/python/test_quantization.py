"""Precisions against their formulas, written out once more in plain loops."""

import logging
import math

import numpy as np
import pytest

from grilly.quantization import quantize_embeddings

ROWS = np.random.RandomState(5).standard_normal((120, 20)).astype(np.float32)
ROWS[:, 3] = 0.25  # a column without a range


def levels(rows, low, high):
    out = np.zeros(rows.shape, dtype=int)
    for (i, j), value in np.ndenumerate(rows):
        step = np.float32((np.float32(high[j]) - np.float32(low[j])) / np.float32(255))
        step = np.float32(1) if step == 0 else step
        out[i, j] = min(255, max(0, math.floor(np.float32((value - np.float32(low[j])) / step))))
    return out


def test_uint8_and_int8():
    expected = levels(ROWS, ROWS.min(0), ROWS.max(0))
    for precision, shift in (("uint8", 0), ("int8", 128)):
        found = quantize_embeddings(ROWS, precision)
        assert found.dtype == precision and np.array_equal(found.astype(int) + shift, expected)


def test_given_ranges_clip():
    ranges = np.stack([np.full(20, -0.5), np.full(20, 0.5)])
    assert np.array_equal(quantize_embeddings(ROWS, "uint8", ranges=ranges), levels(ROWS, *ranges))
    assert np.array_equal(quantize_embeddings(ROWS[0], "uint8", ranges=ranges), levels(ROWS[:1], *ranges)[0])


def test_calibration():
    found = quantize_embeddings(ROWS[:1], "uint8", calibration_embeddings=ROWS)
    assert np.array_equal(found, quantize_embeddings(ROWS, "uint8")[:1])


def test_binary():
    bits = ROWS > 0
    expected = np.zeros((120, 3), dtype=int)
    for (i, j), bit in np.ndenumerate(bits):
        expected[i, j // 8] += int(bit) << (7 - j % 8)
    assert np.array_equal(quantize_embeddings(ROWS, "ubinary"), expected)
    signed = quantize_embeddings(ROWS, "binary")
    assert signed.dtype == np.int8 and np.array_equal(signed.astype(int) + 128, expected)


def test_few_embeddings_warn(caplog):
    with caplog.at_level(logging.WARNING, "grilly"):
        quantize_embeddings(ROWS, "int8")
        assert not caplog.records
        quantize_embeddings(ROWS[:99], "int8")
        assert len(caplog.records) == 1 and "99" in caplog.text


def test_lists_of_matrices_share_ranges():
    parts = [ROWS[:50], ROWS[50:]]
    assert np.array_equal(np.concatenate(quantize_embeddings(parts, "int8")), quantize_embeddings(ROWS, "int8"))
    assert np.array_equal(quantize_embeddings(list(ROWS), "int8"), quantize_embeddings(ROWS, "int8"))


def test_no_rows():
    assert quantize_embeddings(ROWS[:0], "int8").shape == (0, 20)
    assert quantize_embeddings(ROWS[:0], "ubinary").shape == (0, 3)


@pytest.mark.parametrize(
    "rows, precision, words",
    [(ROWS, "int4", "int4"), (ROWS[:1], "int8", "several"), (ROWS.astype(np.int8), "binary", "int8")],
)
def test_impossible_input(rows, precision, words):
    with pytest.raises(ValueError, match=words):
        quantize_embeddings(rows, precision)
