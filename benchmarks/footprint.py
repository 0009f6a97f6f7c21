"""What grilly costs before it computes: import time, load time and peak anonymous memory, each in fresh processes."""

import statistics
import subprocess
import sys
from pathlib import Path

IMPORT = """
import numpy, time
start = time.perf_counter()
import grilly
print(time.perf_counter() - start)
"""

# Names of grilly are loaded at first use, so this is what a program really waits for.
IMPORT_CLASS = """
import numpy, time
start = time.perf_counter()
from grilly import VulkanSentenceTransformer
print(time.perf_counter() - start)
"""

LOAD = """
import sys, time, grilly
start = time.perf_counter()
model = grilly.VulkanSentenceTransformer(sys.argv[1], device="cpu")
print(time.perf_counter() - start)
"""

MEMORY = """
import sys, threading, time
import grilly, workloads

peak, done = 0, threading.Event()

def watch():
    global peak
    while not done.is_set():
        for line in open("/proc/self/status"):
            if line.startswith("RssAnon:"):
                peak = max(peak, int(line.split()[1]) * 1024)
        time.sleep(0.002)

thread = threading.Thread(target=watch)
thread.start()
model = grilly.VulkanSentenceTransformer(sys.argv[1], device="cpu")
model.encode(workloads.short(400))
model.encode(workloads.long(64))
done.set()
thread.join()
print(peak)
"""


def run(code: str, *arguments: str) -> float:
    command = [sys.executable, "-c", code, *arguments]
    finished = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    if finished.returncode != 0:
        raise RuntimeError(finished.stderr)
    return float(finished.stdout.split()[-1])


def measure(model: Path) -> dict[str, float]:
    run(IMPORT_CLASS)  # warms the file cache
    return {
        "import_seconds": statistics.median(run(IMPORT) for _ in range(7)),
        "import_class_seconds": statistics.median(run(IMPORT_CLASS) for _ in range(7)),
        "load_seconds": statistics.median(run(LOAD, str(model)) for _ in range(5)),
        "peak_anonymous_bytes": run(MEMORY, str(model)),
        "weights_bytes": (model / "model.safetensors").stat().st_size,
    }
