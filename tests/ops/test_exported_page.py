"""docs/reference/exported-kernels.md is what its generator gives."""

import re

import exported_page
import pytest
from cases.reference import REFERENCES
from conftest import LONG
from exported_page import PAGE, languages, page

from grilly import kernels

WRITTEN = PAGE.read_text(encoding="utf-8")
REMEDY = "the page is not current: run `.venv/bin/python tests/exported_page.py`"


def cells() -> dict[str, str]:
    """What the page says about languages, by the name that the generator gives to the cell."""
    found = {}
    for line in WRITTEN.splitlines():
        row = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith("| `"):
            name = row[0].strip("`")
            found |= {f"{name} {option}": row[3 + at] for at, option in enumerate((None, "use_half", "use_bfloat16"))}
        elif line.startswith("| [`"):
            found[re.match(r"\| \[`(\w+)`", line)[1]] = row[2]
    return found


def test_the_page_is_current():
    """In `make test` but for the languages, a tenth of a second each, of which the next test has some."""
    told = cells()
    made = page(lambda name, compile_for: languages(compile_for) if LONG else told.get(name, ""))
    assert made == WRITTEN, REMEDY
    assert set(told) >= set(REFERENCES) and all(f"{name} None" in told for name in kernels.names())


@pytest.mark.parametrize("name", ["bias_gelu", "rms_norm_rope"])
def test_the_languages_of_a_kernel_are_those_on_the_page(name):
    kernel = kernels.get(name, use_bfloat16=True)
    assert cells()[f"{name} use_bfloat16"] == languages(lambda target: kernel.compile(target, 5)), REMEDY


def test_the_reason_that_stops_a_language_is_shown(monkeypatch):
    def refused(target):
        if target == "hlsl":
            raise exported_page.errors.UnsupportedError("it needs subgroups")

    assert languages(refused) == "spirv, wgsl, msl, cuda, ptx; not hlsl: it needs subgroups"
