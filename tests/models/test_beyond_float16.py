"""Models whose values may leave float16's range compute the rest in it, and stay finite."""

from pathlib import Path

import numpy as np
import pytest

from grilly import VulkanSentenceTransformer

from . import families, spoil

#: Model, tensors that are multiplied, by how much: the hidden state, or what the second product reads, exceeds 65,504.
CASES = {
    "hidden state": ("t5-matrix", "wo.weight", 1e5),
    "operand of the second product": ("t5-matrix", ".wi_1.weight", 1e5),
    "without a gate": ("t5", ".wi.weight", 8e4),
    "squares": ("bitnet", "up_proj.weight", 8e4),
}
TEXTS = ["a frozen port", "Lemons are sour, and bread needs flour.", "ice"]


def scaled(name: str, end: str, factor: float, folder: Path) -> Path:
    def change(tensors: dict[str, np.ndarray]) -> None:
        found = [key for key in tensors if key.endswith(end)]
        assert found
        tensors.update({key: tensors[key] * np.float32(factor) for key in found})

    path = families.build(name, folder)
    spoil.rewrite(path, change)
    return path


@pytest.mark.parametrize("case", CASES)
def test_values_beyond_float16_stay_finite(case, device, tmp_path):
    folder = scaled(*CASES[case], tmp_path)
    rows, states = {}, {}
    for dtype in ("float32", "float16"):
        with VulkanSentenceTransformer(folder, device=device, dtype=dtype) as model:
            rows[dtype] = model.encode(TEXTS, normalize_embeddings=False).astype(np.float32)
            states[dtype] = model.plan
    assert np.isfinite(rows["float16"]).all()
    assert np.abs(rows["float16"] - rows["float32"]).max() <= 1e-2 * np.abs(rows["float32"]).max()
    assert "held in float32: the hidden state" in states["float16"]
    assert "held in float32" not in states["float32"]
