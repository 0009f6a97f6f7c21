"""Nothing is left out: every operation has a case, every function its documentation, types and test."""

import inspect
from pathlib import Path

import pytest
from cases import CASES
from cases.bounds import BOUNDS
from cases.reference import REFERENCES

from grilly import _core, functional, nn

ROOT = Path(__file__).parent.parent.parent
SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").glob("*/test_*.py")))


@pytest.mark.parametrize("op", _core.op_names())
def test_every_op_has_cases(op):
    rows = [case for case in CASES if case.op == op]
    assert rows, f"{op} has no row in tests/cases"
    assert op in REFERENCES and op in BOUNDS, f"{op} has no reference or no bound"
    empty = [case for case in rows if any(value.size == 0 for value in case.operands())]
    assert empty, f"{op} has no row with an axis of size 0"
    floats = {value.dtype.name for case in rows for value in case.operands() if value.dtype.kind == "f"}
    assert not floats or "float16" in floats, f"{op} has no row of float16"


@pytest.mark.parametrize("op", sorted(REFERENCES))
def test_every_reference_is_of_an_op(op):
    assert op in _core.op_names(), f"tests/cases has rows of {op}, which is no op"


SECTIONS = ("Args:", "Returns:", "Raises:", "Source:", "Example:")


@pytest.mark.parametrize("name", functional.__all__)
def test_every_function_is_documented_typed_and_tested(name):
    function = getattr(functional, name)
    text = inspect.getdoc(function) or ""
    lacking = [section for section in SECTIONS if section not in text]
    assert not lacking, f"functional.{name}'s docstring lacks {lacking}"
    assert text.splitlines()[0].endswith((".", "`.", ":")), f"functional.{name}'s docstring begins without a sentence"
    signature = inspect.signature(function)
    untyped = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
    assert not untyped and signature.return_annotation is not signature.empty, f"functional.{name}: {untyped}"
    for parameter in signature.parameters:
        assert f"{parameter}:" in text, f"functional.{name}'s docstring does not say what {parameter} is"
    short = name.removesuffix("_backward")
    told = f"functional.{name}" in SOURCES or f'"{short}"' in SOURCES
    assert told or name in {case.function for case in CASES}, f"functional.{name} has no test"


@pytest.mark.parametrize("name", nn.__all__)
def test_every_layer_is_documented_and_tested(name):
    text = inspect.getdoc(getattr(nn, name)) or ""
    assert "Source:" in text and "Example:" in text, f"nn.{name}'s docstring lacks its source or example"
    assert f"nn.{name}" in SOURCES or f'"{name}"' in SOURCES, f"nn.{name} has no test"
