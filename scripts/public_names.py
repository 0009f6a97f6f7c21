"""Writes every name that can be imported from the installed package, by module, as tests/names/importable.json.

`python scripts/public_names.py FILE`, with the interpreter of the version whose names are to be kept. Of a module,
`public` are the names of its `__all__`, or all without one; `defined` are others that it defines, or that are its
modules; `passed_on` are others that it imports from the package itself. What comes from other packages is left out.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

import grilly


def modules() -> list[str]:
    """Names of the package's modules, without the one that `python -m grilly` runs and those for other libraries."""
    found = (module.name for module in pkgutil.walk_packages(grilly.__path__, "grilly."))
    left = ("__main__", "grilly.integrations.")
    return ["grilly", *sorted(name for name in found if not any(part in name for part in left))]


def imported(module: ModuleType) -> dict[str, bool]:
    """Names that a module's source imports, and whether from the package itself."""
    if Path(module.__file__ or "").suffix != ".py":
        return {}
    found = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Import):
            found |= {(name.asname or name.name).split(".")[0]: name.name.startswith("grilly") for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            inside = (node.module or "").split(".")[0] == "grilly"
            found |= {name.asname or name.name: inside for name in node.names}
    return found


def names(module: ModuleType) -> dict[str, list[str]]:
    """What can be imported from a module, in the three groups."""
    listed = getattr(module, "__all__", None)
    from_imports = imported(module)
    groups: dict[str, list[str]] = {"public": sorted(listed or []), "defined": [], "passed_on": []}
    for name in sorted(vars(module).keys() | set(dir(module))):
        if name.startswith("_") or name in groups["public"] or not from_imports.get(name, True):
            continue
        # A star import's names are not in the source.
        value = getattr(module, name)
        home = getattr(value, "__module__", module.__name__)
        passed_on = name in from_imports or (not isinstance(value, ModuleType) and home != module.__name__)
        groups["public" if listed is None and not passed_on else "passed_on" if passed_on else "defined"].append(name)
    return {group: found for group, found in groups.items() if found}


def main() -> None:
    found = {name: names(importlib.import_module(name)) for name in modules()}
    lines = [f"  {json.dumps(module)}: {json.dumps(groups)}" for module, groups in found.items()]
    Path(sys.argv[1]).write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
