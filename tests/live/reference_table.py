"""Compares what scripts gave under both packages, and writes the table: how many give the original's results.

python tests/live/reference_table.py CLONE RESULTS
"""

import pickle
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import reference_scripts

#: Of arrays and of printed numbers: those have three or four digits.
ARRAYS, PRINTED = 1e-4, 1.01e-3
#: Of code that names these types: one step of the narrower is 2**-8.
NARROW = 2e-2
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
#: Parts of printed text that do not say what a script found -> what takes their place: addresses, times that a library
#: took by its own clock, and the difference between how torch and NumPy print an array or a shape.
KNOWN = {
    r"0x[0-9a-f]+": "",
    r",? *(?:device='[\w:]+'|grad_fn=<\w+>|dtype=[\w.]+)": "",
    r"torch\.Size\(\[([\d, ]*)\]\)": r"(\1)",
    r"(?:tensor|array)\((\[[^()]*\])\)": r"\1",
    r"\d+(?:\.\d+)? ?(?:sec(?:ond)?s?|ms|s)\b": "# s",
    r"[\s,]+": " ",
    r" ?([][()]) ?": r"\1",
    r"(\d)\.(?!\d)": r"\1",
}


def differs(ours: Any, theirs: Any, tolerance: float) -> str | None:
    """How two values differ, if they do; what has no value that can be compared does not."""
    if ours is None or theirs is None:
        return None
    if isinstance(theirs, np.ndarray) or isinstance(ours, np.ndarray):
        try:
            a, b = np.asarray(ours), np.asarray(theirs)
        except ValueError:
            return "rows of unequal widths"
        if a.shape != b.shape:
            return f"shape {a.shape}, not {b.shape}"
        if not a.size or a.dtype.kind not in "biuf" or b.dtype.kind not in "biuf":
            return None if a.tolist() == b.tolist() else "other elements"
        allowed = 1 if theirs.dtype in (np.int8, np.uint8) else tolerance * max(1.0, float(np.abs(b).max()))
        worst = float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max())
        return None if worst <= allowed else f"{worst:.2g} apart"
    if isinstance(theirs, dict) and isinstance(ours, dict):
        if ours.keys() != theirs.keys():
            return f"keys {sorted(ours.keys() ^ theirs.keys())[:3]}"
        return next((f"[{key!r}] {why}" for key in theirs if (why := differs(ours[key], theirs[key], tolerance))), None)
    if isinstance(theirs, list) and isinstance(ours, list):
        if len(ours) != len(theirs):
            return f"{len(ours)} elements, not {len(theirs)}"
        pairs = enumerate(zip(ours, theirs, strict=True))
        return next((f"[{place}] {why}" for place, (a, b) in pairs if (why := differs(a, b, tolerance))), None)
    if isinstance(theirs, str) and isinstance(ours, str):
        return printed(ours, theirs)
    if isinstance(theirs, int | float) and isinstance(ours, int | float):
        close = abs(ours - theirs) <= tolerance * max(1.0, abs(theirs)) or (ours != ours and theirs != theirs)
        return None if close else f"{ours}, not {theirs}"
    return f"{type(ours).__name__}, not {type(theirs).__name__}"


def printed(ours: str, theirs: str, tolerance: float = PRINTED) -> str | None:
    """How two printed texts differ, numbers and words apart."""
    ours, theirs = map(plain, (ours, theirs))
    words = [NUMBER.sub("#", text) for text in (ours, theirs)]
    if words[0] != words[1]:
        place = next((n for n, (a, b) in enumerate(zip(*words, strict=False)) if a != b), min(map(len, words)))
        near = slice(max(0, place - 20), place + 60)
        return f"prints {words[0][near]!r}, not {words[1][near]!r}"
    for a, b in zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True):
        if abs(float(a) - float(b)) > tolerance * max(1.0, abs(float(b))):
            return f"prints {a}, not {b}"
    return None


def plain(text: str) -> str:
    """The text without the known differences."""
    for pattern, instead in KNOWN.items():
        text = re.sub(pattern, instead, text)
    return text.strip()


def outcome(ours: dict[str, Any], theirs: dict[str, Any], code: str) -> str | None:
    """Why the results are others than the original's, or None."""
    if ours["error"]:
        return f"error: {' '.join(ours['error'].split())[:240]}"
    narrow = NARROW if re.search("float16|half", code) else 0.0
    if why := printed(ours["output"], theirs["output"], max(PRINTED, narrow)):
        return why
    for name, value in theirs["variables"].items():
        if name not in ours["variables"] or (isinstance(value, float) and name.endswith("_time")):
            continue  # its value could not be kept there, such as an object of another class, or is a library's time
        if why := differs(ours["variables"][name], value, max(ARRAYS, narrow)):
            return f"{name}: {why}"
    return None


def read(results: Path, package: str, name: str) -> list[dict[str, Any]] | None:
    path = results / package / f"{name.replace('/', '+')}.pickle"
    return pickle.loads(path.read_bytes()) if path.exists() else None


def table(clone: Path, results: Path) -> tuple[list[tuple[str, str | None]], list[tuple[str, str]]]:
    """(block, why it gives other results or None) of those counted, and (block, why not) of the others."""
    counted, others = [], []
    for name, blocks in reference_scripts.pages(clone).items():
        theirs, ours = (read(results, package, name) for package in ("sentence_transformers", "grilly"))
        for number, code in enumerate(blocks):
            place = f"{name}:{number}" if len(blocks) > 1 else name
            why = reference_scripts.reason(name, blocks, number)
            if why is None and theirs is None:
                why = "not run, or stopped with the process"
            elif why is None and theirs[number]["error"]:
                why = f"the original stops: {' '.join(theirs[number]['error'].split())[:160]}"
            if why:
                others.append((place, why))
            elif ours is None:
                counted.append((place, "not run, or stopped with the process"))
            else:
                # A block without a model goes on with the one before it, and its element type.
                made = [each for each in blocks[: number + 1] if "model = " in each][-1:]
                counted.append((place, outcome(ours[number], theirs[number], "\n".join([*made, code]))))
    return counted, others


def report(counted: list[tuple[str, str | None]], others: list[tuple[str, str]]) -> str:
    """The table as Markdown."""
    same = sum(why is None for _, why in counted)
    lines = [f"{same} of {len(counted)} give the original's results ({same / max(1, len(counted)):.1%}).", ""]
    lines += [f"- {place}: {why}" for place, why in counted if why]
    kinds = Counter(why.split(":")[0] for _, why in others)
    lines += ["", f"Not counted, {len(others)}:", "", *(f"- {number} {kind}" for kind, number in kinds.most_common())]
    return "\n".join([*lines, "", *(f"- {place}: {why}" for place, why in others), ""])


if __name__ == "__main__":
    print(report(*table(Path(sys.argv[1]), Path(sys.argv[2]))))
