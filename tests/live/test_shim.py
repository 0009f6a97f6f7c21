"""The module tree of grilly.compat.sentence_transformers beside the package's, and what is refused beside it."""

import importlib
import importlib.util
import json
import sys
from pathlib import Path

import pytest
import sentence_transformers

import grilly
from grilly.compat import sentence_transformers as compat
from grilly.compat.sentence_transformers import tree
from grilly.errors import InvalidArgumentError

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("reference_modules", ROOT / "scripts" / "reference_modules.py")
reference_modules = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference_modules)
FOUND = reference_modules.read(Path(sentence_transformers.__file__).parent)


def test_the_table_is_that_of_the_package():
    assert json.loads(reference_modules.TABLE.read_text()) == FOUND
    assert compat.__version__ == sentence_transformers.__version__


def test_the_original_is_not_replaced():
    with pytest.raises(InvalidArgumentError, match="uninstall it"):
        grilly.install_as_sentence_transformers()
    assert sys.modules["sentence_transformers"] is sentence_transformers
    assert grilly.SentenceTransformer is not sentence_transformers.SentenceTransformer


@pytest.mark.parametrize("place", [place for place in tree.TABLE if not place.startswith("util.dep")])
def test_every_name_of_the_package_is_found(place):
    """Each is a class where it is one there; what is no function, class or text is not called."""
    theirs = importlib.import_module(".".join(filter(None, ["sentence_transformers", place])))
    ours = importlib.import_module(".".join(filter(None, [tree.ROOT, place])))
    for name in tree.TABLE[place]:
        found = getattr(ours, name)
        assert found is not None
        if hasattr(theirs, name) and isinstance(getattr(theirs, name), type):
            assert isinstance(found, type), name


def test_older_paths_lead_to_the_same_module():
    for old, new in tree.OLDER.items():
        assert importlib.import_module(f"{tree.ROOT}.{old}") is importlib.import_module(f"{tree.ROOT}.{new}")
    assert compat.SentenceTransformer is grilly.SentenceTransformer
