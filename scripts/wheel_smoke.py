"""Checks a wheel from the outside: run in an environment that holds only the wheel, NumPy and tqdm.

usage: python wheel_smoke.py WHEEL MODEL_FOLDER
"""

import importlib.metadata
import sys
import time
import zipfile
from pathlib import Path

MEGABYTE = 1_000_000
#: Of every wheel, in MB: zig makes larger ones than `make wheel`.
LIMIT = 10.8


def check_archive(wheel: Path) -> str:
    size = wheel.stat().st_size
    assert size < LIMIT * MEGABYTE, f"{wheel.name} is {size / MEGABYTE:.1f} MB, the limit is {LIMIT} MB"
    assert "-cp310-abi3-" in wheel.name, f"{wheel.name} is not an abi3 wheel for Python 3.10 and later"
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("LICENSE", "THIRD-PARTY-NOTICES.txt", "py.typed", "_core.pyi"):
        assert any(Path(name).name == wanted for name in names), f"{wheel.name} lacks {wanted}"
    assert not any(name.endswith(".spv") for name in names), "SPIR-V is embedded in the module, not shipped beside it"
    return f"{size / MEGABYTE:.1f} MB, {wheel.name.removesuffix('.whl').split('-', 2)[2]}"


def distribution_of(wheel: Path) -> str:
    """The name on an index, which release.toml chooses."""
    return wheel.name.partition("-")[0].replace("_", "-")


def check_environment(wheel: Path) -> None:
    allowed = {distribution_of(wheel), "numpy", "tqdm", "pip", "setuptools"}
    installed = {distribution.name.lower() for distribution in importlib.metadata.distributions()}
    assert installed <= allowed, f"the environment also holds {sorted(installed - allowed)}"


def check_encode(wheel: Path, model_folder: str) -> str:
    import numpy as np

    start = time.perf_counter()
    import grilly
    from grilly.utils.vulkan_sentence_transformer import VulkanSentenceTransformer

    seconds = time.perf_counter() - start
    assert grilly.__version__ == importlib.metadata.version(distribution_of(wheel))
    texts = ["A cat sits on the mat.", "A kitten rests on a rug.", "Interest rates rose in March."]
    with VulkanSentenceTransformer(model_folder, device="cpu") as model:
        embeddings = model.encode(texts)
        backend = model.backend
    assert backend == "cpu", backend
    assert embeddings.dtype == np.float32 and embeddings.shape == (3, 384), (embeddings.dtype, embeddings.shape)
    assert np.abs(np.linalg.norm(embeddings, axis=1) - 1).max() < 1e-5
    similar, different = embeddings[0] @ embeddings[1], embeddings[0] @ embeddings[2]
    assert similar > different + 0.3, (similar, different)
    heavy = {"torch", "transformers", "sentence_transformers"} & set(sys.modules)
    assert not heavy, f"{sorted(heavy)} was imported"
    return f"import {seconds:.3f} s after NumPy, similar {similar:.3f}, different {different:.3f}"


def main() -> None:
    wheel, model_folder = Path(sys.argv[1]), sys.argv[2]
    archive = check_archive(wheel)
    check_environment(wheel)
    print(f"wheel: {archive}; Python {sys.version.split()[0]}: {check_encode(wheel, model_folder)}")


if __name__ == "__main__":
    main()
