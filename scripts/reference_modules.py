"""Writes the module tree of sentence-transformers, from the package that is installed, without importing it.

    python scripts/reference_modules.py [FOLDER]

FOLDER is the folder `sentence_transformers`; default: the one that this Python would import. Written is
python/grilly/compat/sentence_transformers/modules.json: for each module its public names that are its package's
own, and the older paths of modules. tests/live/test_shim.py compares the file with the package.
"""

import ast
import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "python/grilly/compat/sentence_transformers/modules.json"
PACKAGE = "sentence_transformers"


def installed() -> Path:
    """The folder of the installed package."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit(f"{PACKAGE} is not installed: make setup-live")
    return Path(spec.origin).parent


def public(tree: ast.Module) -> list[str]:
    """`__all__` of a module, else what it defines, or imports from its own package, without an underscore in front."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name):
            if target.id == "__all__":
                return sorted(ast.literal_eval(node.value))
            names.add(target.id)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom) and (node.level or f"{node.module}.".startswith(f"{PACKAGE}.")):
            names |= {alias.asname or alias.name for alias in node.names}
    return sorted(name for name in names - {"logger"} if not name.startswith("_"))


def older(tree: ast.Module) -> dict[str, str]:
    """Older path -> path, of modules that moved, below the package."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DEPRECATED_MODULE_PATHS":
            paths = ast.literal_eval(node.value)
            return {old.removeprefix(f"{PACKAGE}."): new.removeprefix(f"{PACKAGE}.") for old, new in paths.items()}
    raise SystemExit("util/deprecated_import.py has no DEPRECATED_MODULE_PATHS")


def read(folder: Path) -> dict[str, Any]:
    """The table."""
    modules = {}
    for path in sorted(folder.rglob("*.py")):
        place = ".".join(path.relative_to(folder).with_suffix("").parts)
        place = re.sub(r"\.?__init__$", "", place)
        modules[place] = " ".join(public(ast.parse(path.read_text(encoding="utf-8"))))
    moved = older(ast.parse((folder / "util" / "deprecated_import.py").read_text(encoding="utf-8")))
    version = re.search(r'^__version__ = "(.+)"$', (folder / "__init__.py").read_text(encoding="utf-8"), re.MULTILINE)
    assert version is not None
    return {"version": version[1], "modules": modules, "older": dict(sorted(moved.items()))}


if __name__ == "__main__":
    found = read(Path(sys.argv[1]) if len(sys.argv) > 1 else installed())
    TABLE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
