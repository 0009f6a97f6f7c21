"""Flash attention's tuned configurations in exported CUDA on an NVIDIA GPU, against float64.

python tests/flash_on_cuda.py --export FOLDER     # here: PTX and interfaces; needs grilly and NVRTC
python tests/flash_on_cuda.py FOLDER              # on the GPU's machine: needs NumPy, this clone and NVIDIA's driver

Each row runs with its own blocks and shared memory, masked and not, on one text whose last tiles are not full; a row is
right if every number is within the bound of the case table for float32 arithmetic, rounded to float16. Times are the
device's own, the best of five rounds of ten launches on 16 heads and 4,096 tokens.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "examples")]

import launch_cuda  # noqa: E402
import numpy as np  # noqa: E402
from cases.bounds import bound, stored_in_half  # noqa: E402
from cases.comparison import agrees  # noqa: E402
from cases.reference import evaluate  # noqa: E402

#: Rows of `TunedConfigs` for NVIDIA's GPUs, and an architecture of each.
ROWS = {"ampere": "sm_80", "hopper": "sm_90", "blackwell": "sm_100"}
HEADS, TOKENS = 2, 700
TIMED_HEADS, TIMED_TOKENS = 16, 4096
ROUNDS, CALLS = 5, 10


def compiled() -> Iterator[tuple[str, Any]]:
    """Every row in PTX for its architecture, and the file's name: with and without a mask, and of the timed size."""
    from grilly import kernels

    for row, architecture in ROWS.items():
        config = getattr(kernels.TunedConfigs, row)
        for name, heads, tokens, causal in (
            (row, HEADS, TOKENS, False),
            (f"{row}-causal", HEADS, TOKENS, True),
            (f"{row}-timed", TIMED_HEADS, TIMED_TOKENS, False),
        ):
            kernel = kernels.get("flash_attention", hidden_dim=heads * config.head_dim, config=config, causal=causal)
            yield name, kernel.compile("ptx", tokens, architecture)


def operands(interface: dict[str, Any]) -> list[np.ndarray]:
    """Random queries, keys and values, and the places of one text."""
    rng = np.random.default_rng(3)
    rows = sorted((row for row in interface["buffers"] if row["kind"] == "operand"), key=lambda row: row["place"])
    tokens = rows[0]["shape"][0]
    return [
        rng.standard_normal(row["shape"]).astype(np.float16)
        if row["dtype"] == "float16"
        else np.array([0, tokens], np.int32)
        for row in rows
    ]


def fault(interface: dict[str, Any], given: list[np.ndarray], found: np.ndarray, causal: bool) -> str | None:
    """What is wrong with a result."""
    head_dim = interface["configuration"]["head_dim"]
    heads = given[0].shape[1] // head_dim
    attributes = {"heads": heads, "kv_heads": heads, "head_dim": head_dim, "scale": head_dim**-0.5, "causal": causal}
    expected = evaluate("attention", given, attributes)
    allowed = stored_in_half(expected, bound("attention", given, attributes, expected, False))
    return agrees(found, expected, np.broadcast_to(allowed, expected.shape))


def seconds(driver: launch_cuda.Driver, interface: dict[str, Any], code: dict[str, bytes]) -> float:
    """The device's time of one launch."""
    given = operands(interface)
    buffers = []
    for row in interface["buffers"]:
        data = given[row["place"]].tobytes() if row["kind"] == "operand" else np.uint32(row.get("words", [])).tobytes()
        buffers.append(driver.buffer(data.ljust(max(row["bytes"], 16), b"\0")))
    (row,) = interface["dispatches"]
    function, best = driver.function(code[row["shader"]]), float("inf")
    events = [ctypes.c_void_p() for _ in range(2)]
    for event in events:
        driver.call("cuEventCreate", ctypes.byref(event), 0)
    for _ in range(ROUNDS):
        driver.call("cuEventRecord", events[0], None)
        for _ in range(CALLS):
            driver.launch(function, row, buffers)
        driver.call("cuEventRecord", events[1], None)
        driver.call("cuEventSynchronize", events[1])
        passed = ctypes.c_float()
        driver.call("cuEventElapsedTime", ctypes.byref(passed), *events)
        best = min(best, passed.value / 1000 / CALLS)
    return best


def judged(name: str, interface: dict[str, Any], code: dict[str, bytes]) -> str | None:
    """Runs a row; keys in another order are a control that must be noticed."""
    given, causal = operands(interface), name.endswith("-causal")
    (found,) = launch_cuda.run(interface, code, given)
    problem = fault(interface, given, found, causal)
    if problem is None:
        (other,) = launch_cuda.run(interface, code, [given[0], given[1][::-1], *given[2:]])
        if fault(interface, given, other, causal) is None:
            problem = "keys in another order were not noticed"
    return problem


def main(folder: Path) -> int:
    """Runs the rows of a folder and prints a line of each."""
    driver, wrong = launch_cuda.Driver(), 0
    launch_cuda.Driver = lambda: driver  # type: ignore[assignment, misc]  # one context for all
    print(f"{'row':18} {'blocks':>15} {'bytes':>8} {'of':>8} {'dynamic':>8}  result")
    for name in sorted(path.stem for path in folder.glob("*.json")):
        interface = json.loads((folder / f"{name}.json").read_text())
        (row,) = interface["dispatches"]
        code = {row["shader"]: (folder / row["file"]).read_bytes()}
        told = interface["configuration"]
        blocks = " x ".join(str(told[key]) for key in ("block_q", "block_kv", "head_dim"))
        try:
            if name.endswith("-timed"):
                words = f"{seconds(driver, interface, code) * 1e6:.0f} us"
            else:
                problem = judged(name, interface, code)
                words, wrong = problem or "right", wrong + (problem is not None)
        except RuntimeError as error:
            words, wrong = str(error), wrong + 1
        memory, dynamic = told["shared_memory"], row.get("dynamic_memory", 0)
        print(f"{name:18} {blocks:>15} {memory:>8} {told['limit']:>8} {dynamic:>8}  {words}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--export", action="store_true")
    given = parser.parse_args()
    if given.export:
        for name, code in compiled():
            print(*code.write(given.folder / f"{name}.ptx", overwrite=True))
    else:
        sys.exit(main(given.folder))
