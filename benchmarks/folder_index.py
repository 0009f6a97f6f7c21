"""Indexing a folder beside `encode` of the same texts, and a search after one of its files has changed.

`python benchmarks/folder_index.py MODEL [--device vulkan] [--files 100000] [--rounds 3] [--folder FOLDER]`

The folder has a short text in each file. Both ways have a model that is loaded, and the same batches; rows are
compared before times are taken. The ratio is the median of the rounds; above 1 the index is faster. The searches are
processes of their own, from their start to their end.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import measure
import numpy as np
import workloads

from grilly import SentenceTransformer
from grilly.commands.documents import walk
from grilly.commands.folder_index import BATCH, FolderIndex

#: Files of a folder within the folder.
TOGETHER = 1000
#: Searches after a change, of which the fastest and the slowest are told.
SEARCHES = 5


def write(root: Path, texts: list[str]) -> None:
    for number, text in enumerate(texts):
        path = root / f"{number // TOGETHER:04}" / f"{number:07}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")


def indexed(root: Path, place: Path, model: SentenceTransformer) -> None:
    """Makes an index anew."""
    FolderIndex.remove(place)
    with FolderIndex(place) as index:
        index.begin(model, "model")
        found = walk(root)
        index.update(root, found, model)
        assert not found.problems, found.problems


def compared(place: Path, texts: list[str], rows: np.ndarray) -> None:
    """The row of each text is that of `encode`."""
    with FolderIndex(place) as index:
        numbers = dict(index._base.execute("SELECT text, id FROM texts"))
    stored = np.load(place / "rows-0.npy", mmap_mode="r")
    assert numbers.keys() == set(texts), "other texts"
    assert np.array_equal(stored[[numbers[text] for text in texts]], rows), "other rows"


def searches(root: Path, model: str, device: str, changed: Path) -> list[float]:
    """Seconds of a search in a process, each after a change of one file."""
    taken = []
    for number in range(SEARCHES):
        changed.write_text(f"What changed is number {number}.\n", encoding="utf-8")
        time.sleep(1)  # a file that was changed a moment ago would be read again by the next
        command = [sys.executable, "-m", "grilly", "search", "what changed", str(root), "--top-k", "1"]
        start = time.perf_counter()
        done = subprocess.run([*command, "--model", model, "--device", device], capture_output=True, text=True)
        taken.append(time.perf_counter() - start)
        assert done.returncode == 0 and f"What changed is number {number}." in done.stdout, done
        assert not done.stderr, done.stderr
    return sorted(taken)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("model")
    options.add_argument("--device", default="auto")
    options.add_argument("--files", type=int, default=100_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--folder", type=Path, help="where the files are put (default: a temporary folder)")
    given = options.parse_args()
    texts = [f"{text} {number}" for number, text in enumerate(workloads.short(given.files))]
    root = Path(tempfile.mkdtemp(dir=given.folder))
    try:
        write(root, texts)
        place = root / ".grilly-index"
        with SentenceTransformer(given.model, device=given.device) as model:
            batch = 32 if model.backend == "cpu" else BATCH
            unit = {"normalize_embeddings": True, "show_progress_bar": False}
            rows = model.encode_document(texts, batch_size=batch, **unit)
            indexed(root, place, model)
            compared(place, texts, rows)
            del rows
            taken = measure.turns(
                {
                    "index": lambda: indexed(root, place, model),
                    "encode": lambda: model.encode_document(texts, batch_size=batch, **unit),
                },
                given.rounds,
                warm=0,
            )
            name = model.device_name
        rates = {way: given.files / statistics.median(seconds) for way, seconds in taken.items()}
        ratio = measure.ratio(taken["index"], taken["encode"])
        print(f"{name}: {given.files} files, index {ratio:.3f} of encode's rate,")
        print(f"  {rates['index']:,.0f} and {rates['encode']:,.0f} texts/s in batches of {batch}", flush=True)
        found = searches(root, given.model, given.device, root / "0000" / "0000000.txt")
        print(f"a search after one file has changed: {found[0]:.2f} to {found[-1]:.2f} s, the median {found[2]:.2f} s")
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
