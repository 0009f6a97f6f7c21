"""The folders of a tree are in an order: none imports one above it, and none are in a circle; files are short.

tests/structure.json has the orders, from below, and what does not keep to the rules yet: lists that only shrink.
"""

import functools
import importlib.util
import json
import re
import struct

import pytest
from structure import ROOT, TREES, WRITTEN, circles, edges, expand, is_test, modules, product_code

RULES = json.loads((ROOT / "tests" / "structure.json").read_text())
TREES_IN_ORDER = list(RULES["trees"])
#: Lines of a file.
MOST = 300
#: Files of one folder may use each other, if they are so few.
FEW = 3


@functools.cache
def read(tree):
    row = RULES["trees"][tree]
    known = modules(ROOT / tree, row["ending"])
    return known, edges(known, row.get("package", ""))


def listed(kind, tree):
    return [row for row in RULES[kind] if row["tree"] == tree]


@pytest.mark.parametrize("tree", TREES_IN_ORDER)
def test_no_folder_imports_one_above(tree):
    known, used = read(tree)
    order = RULES["trees"][tree]["order"]
    place = {name: n for n, name in enumerate(order)}
    assert len(place) == len(order) and {name[0] for name in known if name} >= place.keys()
    if order and tree == "src":
        assert {name[0] for name in known if name} == place.keys(), "every folder has its place in the order"
    up = sorted(
        {"tree": tree, "from": "/".join(module), "to": there[0]}.items()
        for (here, there), users in used.items()
        for module in users
        if len(here) == 1 and place.get(here[0], -1) < place.get(there[0], -1) and here[0] in place
    )
    assert [dict(row) for row in up] == listed("arrows_up", tree)


@pytest.mark.parametrize("tree", TREES_IN_ORDER)
def test_no_circle_of_folders_or_of_many_files(tree):
    known, used = read(tree)
    folders = {name[:n] for name in known for n in range(1, len(name))}
    found = [
        ["/".join(unit) for unit in group]
        for group in circles(used)
        if len(group) > FEW or any(unit in folders for unit in group)
    ]
    assert found == [row["units"] for row in listed("circles", tree)]


@pytest.mark.parametrize("tree", TREES)
def test_files_are_short(tree):
    paths = (path for path in sorted((ROOT / tree).rglob("*")) if path.suffix in WRITTEN)
    lines = {path.relative_to(ROOT): path.read_text().count("\n") for path in paths}
    long = [str(path) for path, count in lines.items() if count > MOST and not is_test(path)]
    assert lines and long == [path for path in RULES["long"] if path.startswith(f"{tree}/")]


#: Functions whose bits depend on the C library, the compiler or the processor; float64's are no better than float32's.
OF_NO_CERTAIN_BITS = re.compile(
    r"\b(?:mul_add|exp|exp2|exp_m1|ln|ln_1p|log|log2|log10|powf|powi|cbrt|hypot"
    r"|a?(?:sin|cos|tan)h?|atan2|sin_cos|round|round_ties_even|floor|ceil|trunc|fract|rem_euclid)\("
)
CPU = ROOT / "src" / "backend" / "cpu"


def test_numbers_that_are_the_same_everywhere_come_from_no_library():
    files = [CPU / "exact.rs", CPU / "simd" / "exact.rs", *sorted((CPU / "kernels" / "everywhere").rglob("*.rs"))]
    code = {path: product_code(path.read_text()) for path in files if not is_test(path.relative_to(ROOT))}
    assert len(code) > 10 and any("sqrt()" in text for text in code.values())
    own = re.compile(r"\bfn (\w+)\(")
    defined = {name for text in code.values() for name in own.findall(text)}
    called = {path.name: OF_NO_CERTAIN_BITS.findall(text) for path, text in code.items()}
    found = {name: [call for call in calls if call[:-1] not in defined] for name, calls in called.items()}
    assert not any(found.values()), found
    assert not [path for path, text in code.items() if re.search(r"\.tanh\(|f(32|64)::tanh", text)]
    assert OF_NO_CERTAIN_BITS.findall("x.exp() + f32::ln(x) + x.mul_add(y, z) + simd.mul_add_e_f64s(a)") == [
        "exp(",
        "ln(",
        "mul_add(",
    ]


def test_functions_of_the_cpu_have_the_coefficients_of_the_shaders():
    def literals(*paths):
        code = re.sub(r"//.*", "", "".join(path.read_text() for path in paths)).replace("_", "")
        found = re.findall(r"\d+\.\d{3,}(?:e-?\d+)?|\d\.\d+e-\d+", code)
        return {struct.pack("f", float(text)): text for text in found}

    include = ROOT / "shaders" / "include"
    shaders = literals(
        include / "numbers.glsl", *(include / "elementwise").glob("*.glsl"), include / "numbers" / "angles.glsl"
    )
    own = literals(CPU / "kernels" / "everywhere" / "functions.rs")
    assert len(own) > 40 and {text for bits, text in own.items() if bits not in shaders} == set()


def test_what_is_read():
    assert expand("crate::a::{b as c, d::{self, e}}") == ["crate::a::b", "crate::a::d::self", "crate::a::d::e"]
    code = 'use a; // use b\nlet text = "use c;";\n#[cfg(test)]\nmod tests {\n    use d;\n}\n'
    assert product_code(code).split() == ["use", "a;", "let", "text", "=", '"";']


def test_a_circle_is_found(tmp_path):
    for name, text in {
        "lib": "mod a; mod b;", "a/mod": "pub mod low;", "a/low": "use crate::b::X;", "b": "use super::a::{low::Y, Z};",
        "c": "use crate::b; fn f() { crate::a::low::g() }",
    }.items():  # fmt: skip
        (tmp_path / f"{name}.rs").parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.rs").write_text(text)
    used = edges(modules(tmp_path, ".rs"))
    assert circles(used) == [[("a",), ("b",)]]
    assert used[("c",), ("a",)] == {("c",)} and (("a",), ("a", "low")) not in used


def test_lines_of_code_are_counted():
    path = ROOT / "scripts" / "code_lines.py"
    spec = importlib.util.spec_from_file_location("code_lines", path)
    counter = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(counter)
    python = '"""A module."""\n\n# comment\nx = """a\nb"""  # two lines\n\n\ndef f():\n    """Says."""\n    return x\n'
    assert counter.python_lines(python) == 4
    rust = (
        '//! Docs.\n\n/// Docs.\nfn f() -> &\'static str {\n    /* no\n    code */\n    "// code" // comment\n}\n'
        "#[cfg(test)]\nuse x;\n\n#[cfg(test)]\nmod tests {\n    fn g() {\n    }\n}\n"
    )
    assert counter.other_lines(rust, ".rs") == 3
    assert counter.other_lines("#version 460\n//# name = 1\n// comment\nvoid main() {}\n", ".glsl") == 3
    assert counter.count(None)["src"] > 10_000


def test_slow_tests_are_there():
    listed = [line for line in (ROOT / "tests" / "slow.txt").read_text().splitlines() if not line.startswith("#")]
    found = [
        f"{path.relative_to(ROOT / 'tests')}::{name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for name in re.findall(r"^(?:    )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert listed == sorted(set(listed)) and set(listed) <= set(found), sorted(set(listed) - set(found))
