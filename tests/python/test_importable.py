"""Every name that could be imported from the version before the package was ordered by readers still can."""

import importlib
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "names"
#: Written by scripts/public_names.py with the wheel of that version.
IMPORTABLE = json.loads((FOLDER / "importable.json").read_text())
#: Internals that modules have no longer, and what they had only because they imported it: module -> names.
WITHDRAWN = json.loads((FOLDER / "withdrawn.json").read_text())


def can_be_imported(module, name):
    try:
        exec(f"from {module} import {name}", {})
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("module", IMPORTABLE)
def test_names_keep_their_import_paths(module):
    importlib.import_module(module)
    groups = IMPORTABLE[module]
    absent = [name for names in groups.values() for name in names if not can_be_imported(module, name)]
    assert absent == WITHDRAWN.get(module, [])
    # What `__all__` lists, and a page of the documentation shows, stays.
    internal = set(groups.get("passed_on", [])) | set(groups.get("defined", []))
    assert set(absent) <= internal or module == "grilly.sentence_transformer.arguments", "that one had no __all__"
    listed = set(getattr(importlib.import_module(module), "__all__", groups.get("public", [])))
    assert set(groups.get("public", [])) <= listed | set(absent)


def test_the_list_is_whole():
    assert len(IMPORTABLE) == 143 and WITHDRAWN.keys() <= IMPORTABLE.keys()
    assert sum(len(names) for groups in IMPORTABLE.values() for names in groups.values()) == 2013
