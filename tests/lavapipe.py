"""How lavapipe, Mesa's software driver, compiles: its environment variables, and a folder for what it compiled.

Nearly all of a test's time on lavapipe is its compiler's, and most of that its optimiser's: tests/ops runs without it,
models with it, which would run too slowly. lavapipe keeps what it compiled without regard to the width of its vectors,
hence a folder for each; they are the machine's, so that a new checkout, too, compiles only what has changed.
"""

import os
from pathlib import Path

CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "grilly"
CPU = Path("/proc/cpuinfo")
NATIVE = "native"
UNOPTIMISED = "nopt"
#: Whether the processor has vectors of 512 bits. Without them lavapipe splits such, and rounds halves away from zero
#: there, where Vulkan's RoundEven and the tests expect even numbers.
AVX512 = CPU.exists() and "avx512f" in CPU.read_text()
#: Bits of lavapipe's vectors, and the subgroup sizes that come of them; natively 256 and 8 on most processors.
SUBGROUPS = {"128": 4} | ({"512": 16} if AVX512 else {})


def chosen() -> bool:
    """Whether it is this process's driver."""
    return "lvp" in os.environ.get("VK_DRIVER_FILES", os.environ.get("VK_ICD_FILENAMES", ""))


def width() -> str:
    """That of this process."""
    return os.environ.get("LP_NATIVE_VECTOR_WIDTH", NATIVE)


def optimised() -> bool:
    """Whether this process optimises."""
    return UNOPTIMISED not in os.environ.get("GALLIVM_PERF", "").split(",")


def environment(width: str = NATIVE, optimised: bool = False) -> dict[str, str]:
    """For vectors of so many bits, with or without the optimiser."""
    folder = CACHES / f"lavapipe-{width}-{'optimised' if optimised else 'unoptimised'}"
    folder.mkdir(parents=True, exist_ok=True)
    chosen = {"GALLIVM_PERF": "" if optimised else UNOPTIMISED, "MESA_SHADER_CACHE_DIR": str(folder)}
    return chosen if width == NATIVE else chosen | {"LP_NATIVE_VECTOR_WIDTH": width}
