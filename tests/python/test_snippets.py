"""Code written for sentence-transformers runs after its import line is changed, with sentence-transformers' results."""

import json
from pathlib import Path

import pytest
import snippet_runner
from snippet_runner import SNIPPETS, WITH_TORCH

# Made by tests/fixtures/make_snippets.py under sentence-transformers; tests/live/test_snippets.py compares directly.
EXPECTED = json.loads((Path(__file__).parent.parent / "fixtures" / "snippets.json").read_text())["results"]


@pytest.mark.parametrize("name, package", [case for case in snippet_runner.CASES if case[0] not in WITH_TORCH])
def test_a_snippet(name, package, real_model_path, device, tmp_path):
    found = snippet_runner.run(name, package, real_model_path, device, tmp_path / "saved")
    assert snippet_runner.difference(found, EXPECTED[name]) <= snippet_runner.TOLERANCE


def test_only_import_lines_name_the_package():
    assert len(SNIPPETS) > 10
    for name, text in SNIPPETS.items():
        changed = snippet_runner.IMPORT.sub("", text)
        assert changed != text and snippet_runner.PACKAGE not in changed and "grilly" not in changed, name
