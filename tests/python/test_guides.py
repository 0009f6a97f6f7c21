"""The Python of the guides about operations, arrays and layers runs."""

import re
from pathlib import Path

import pytest

GUIDES = Path(__file__).parent.parent.parent / "docs" / "guides"


@pytest.mark.parametrize("name", ["functional", "arrays", "nn"])
def test_the_code_of_a_guide_runs(name):
    text = (GUIDES / f"{name}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) > 1
    names: dict = {}
    for block in blocks:
        exec(block, names)
