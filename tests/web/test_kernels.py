"""Exported kernels in Chromium, by Dawn and Tint, against float64: rows of every operation, and what must fail."""

import base64
import functools

import numpy as np
import pytest
from exported import compiled_for, fault, of, rows

from grilly import _core, kernels

RUN = """
const { launch } = await import("./launch.js");
const bytes = (encoded) => Uint8Array.from(atob(encoded), (one) => one.charCodeAt(0));
const results = await launch(args.interface, ({ shader }) => args.code[shader], args.operands.map(bytes));
const encoded = ({ buffer }) => btoa(Array.from(new Uint8Array(buffer), (one) => String.fromCharCode(one)).join(""));
return results.map(({ dtype, shape, values }) => ({ dtype, shape, bytes: encoded(values) }));
"""


def run(browser, compiled, case, changes: tuple[str, str] = ("", "")) -> list[np.ndarray]:
    """Results in the browser of WGSL, in which one text may be replaced by another."""
    code = {name: text.decode().replace(*changes) for name, text in compiled.code.items()}
    operands = [base64.b64encode(np.ascontiguousarray(value).tobytes()).decode() for value in case.operands()]
    answer = browser.run(RUN, {"interface": compiled.interface, "code": code, "operands": operands})
    found = []
    for row in answer:
        data, count = base64.b64decode(row["bytes"]), int(np.prod(row["shape"], dtype=np.int64))
        found.append(np.frombuffer(data, row["dtype"], count).reshape(row["shape"]))
    return found


@functools.cache
def compiled_of(name: str) -> kernels.Compiled:
    return compiled_for(of(name), "wgsl")


@pytest.mark.parametrize("case", rows(True), ids=lambda case: case.id)
def test_a_browser_computes_the_operation(browser, case):
    problem = fault(case, run(browser, compiled_of(case.id), case))
    assert problem is None, problem


#: Builds that need no feature and are not exported: a question to a driver, and what software devices run with the same
#: bits as `linear`.
OWN = {"half-packing", "linear-shuffle", "expert-linear-shuffle", "layer-norm-linear-shuffle"}


def test_the_rows_run_every_float32_kernel():
    built = {name for name, needs, _ in _core.built_variants() if not needs}
    float32 = {name for name in built if not name.endswith(("-float16", "-bfloat16"))} - OWN
    ran = {code for case in rows(True) for code in compiled_of(case.id).code}
    assert float32 - ran == set() and OWN < built


@pytest.mark.parametrize(
    "name, text, other",
    [("layer_norm-3x65", "workgroupBarrier();", ""), ("softmax-3x65", "0.6933594", "0.7")],
)
def test_the_comparison_fails_for_a_kernel_that_is_wrong(browser, name, text, other):
    case = of(name)
    compiled = compiled_for(case, "wgsl")
    assert all(text.encode() in code for code in compiled.code.values())
    assert fault(case, run(browser, compiled, case, (text, other))) is not None


def test_the_comparison_fails_for_what_is_not_written(browser):
    case = of("layer_norm-3x65")
    found = run(browser, compiled_for(case, "wgsl"), case, ("y.y[", "y.y[1000000u + "))
    assert np.isnan(found[0]).any() and fault(case, found) is not None


def test_the_browser_refuses_barriers_that_not_all_reach(browser):
    case = of("layer_norm-3x65")
    within = "if (slot > 1u) { workgroupBarrier(); }"
    with pytest.raises(RuntimeError, match="uniform control flow"):
        run(browser, compiled_for(case, "wgsl"), case, ("workgroupBarrier();", within))


def test_a_limit_that_the_device_lacks_is_told_with_its_reason(browser):
    case = of("layer_norm-3x65")
    compiled = compiled_for(case, "wgsl")
    compiled.interface["limits"].append(
        {"name": "maxComputeWorkgroupStorageSize", "needed": 1 << 20, "default": 1 << 14, "reason": "for this test"}
    )
    with pytest.raises(RuntimeError, match="maxComputeWorkgroupStorageSize of [0-9]+: 1048576, for this test"):
        run(browser, compiled, case)


def test_the_launcher_s_page_shows_results(browser):
    shown = browser.run("await shown; return document.getElementById('results').innerText")
    assert shown.startswith("softmax_dropout: float32 [4,64] 0.0"), shown
