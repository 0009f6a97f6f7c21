"""Runs the texts of tests/snippets, code written for sentence-transformers, under either package."""

import re
from pathlib import Path
from typing import Any

SNIPPETS = {
    path.stem: path.read_text(encoding="utf-8") for path in sorted((Path(__file__).parent / "snippets").glob("*.py"))
}
# Those that import torch themselves.
WITH_TORCH = {name for name, text in SNIPPETS.items() if "import torch" in text}
PACKAGE = "sentence_transformers"
# Two float32 engines differ by less in embeddings of length 1; sums of 384 distances by a few times that.
TOLERANCE = 3e-6
IMPORT = re.compile(rf"^from {PACKAGE}(\.[\w.]+)? import .*$", re.MULTILINE)
#: What may stand in its place: the package itself has the names that have a counterpart, the module all.
COMPAT = "grilly.compat.sentence_transformers"
CASES = [(name, COMPAT) for name in SNIPPETS] + [(name, "grilly") for name in SNIPPETS if name != "import_lines"]


def run(name: str, package: str, model: Path, device: str, folder: Path) -> dict[str, Any]:
    """What a snippet leaves in `results`, with arrays and tensors as lists."""
    text = IMPORT.sub(lambda line: line.group().replace(PACKAGE, package), SNIPPETS[name])
    results: dict[str, Any] = {}
    names = {"MODEL": str(model), "DEVICE": device, "FOLDER": str(folder), "results": results}
    exec(compile(text, f"{name} with {package}", "exec"), names)
    return {key: plain(value) for key, value in results.items()}


def plain(value: Any) -> Any:
    """The same in lists, dicts and numbers."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value


def difference(left: Any, right: Any, place: str = "results") -> float:
    """The largest difference of two numbers at the same place, of each number's size above 1; all else must be equal.

    Levels of quantised numbers may be one apart: a number that lies between two goes to either.
    """
    if isinstance(left, float) and isinstance(right, float):
        return abs(left - right) / max(1.0, abs(right))
    if isinstance(left, dict):
        assert list(left) == list(right), place
        return max((difference(left[key], right[key], f"{place}.{key}") for key in left), default=0.0)
    if isinstance(left, list):
        assert isinstance(right, list) and len(left) == len(right), place
        return max((difference(a, b, f"{place}[{i}]") for i, (a, b) in enumerate(zip(left, right))), default=0.0)
    assert left == right or (".levels" in place and abs(left - right) == 1), place
    return 0.0
