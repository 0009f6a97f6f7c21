"""How many files name each family and each class of models: `python tests/additions.py`.

The product's are in src/, python/ and shaders/, without their tests; beside them the pages of docs/, and the tests and
fixtures. Files that a script makes are not counted.
"""

import re
import subprocess
from collections import defaultdict
from pathlib import Path

from structure import ROOT, is_test

#: What scripts write: checkpoints, their numbers, pages.
MADE = re.compile(r"\.(npz|json|csv|gz|txt)$|^docs/reference/|^CHANGELOG\.md$")
KEYS = "src/model/arch/keys.json"
PARTS = {"the product's": ("src/", "python/", "shaders/"), "pages": ("docs/", "README.md"), "tests": ("tests/",)}


def part_of(path: str) -> str | None:
    """The part of the tree that a file is counted in."""
    if MADE.search(path) and path != KEYS:
        return None
    if is_test(Path(path)):
        return "tests"
    return next((part for part, begins in PARTS.items() if path.startswith(begins)), None)


def main() -> None:
    paths = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    files = [(path, part) for path in paths if (part := part_of(path))]
    texts = {path: (ROOT / path).read_text(errors="replace") for path, _ in files}
    table = (ROOT / "src/model/arch/table.rs").read_text()
    names_of = {name: rf'"{name}\b[^"\n]*"|\bmod {name};|`{name}`' for name in re.findall(r'row\("(\w+)"', table)}
    families = {name: re.compile(pattern) for name, pattern in names_of.items()}
    source = "".join(path.read_text() for path in sorted((ROOT / "src/model/class").glob("*.rs")))
    classes = {name: re.compile(rf"\b{name}\b") for name in re.findall(r'name: "(\w+)"', source)}
    for kind, names in (("family", families), ("class", classes)):
        print(f"{kind:24} " + "  ".join(f"{part:>13}" for part in PARTS))
        for name, pattern in names.items():
            counts: dict[str, int] = defaultdict(int)
            for path, part in files:
                counts[part] += bool(pattern.search(texts[path]))
            print(f"{name:24} " + "  ".join(f"{counts[part]:13}" for part in PARTS))


if __name__ == "__main__":
    main()
