"""Exported kernels in Chromium, by Dawn and Tint, against float64: the rows of wgpu-native, and what must fail."""

import base64

import numpy as np
import pytest
from conftest import LONG
from exported import compiled_for, fault, of, rows

RUN = """
const { Program, requestDevice } = await import("/grilly.js");
globalThis.device ??= await requestDevice();
const text = (name) => args.code[name];
const program = await Program.create(device, args.interface, (row) => text(row.shader));
const bytes = (encoded) => Uint8Array.from(atob(encoded), (one) => one.charCodeAt(0));
// NaN, so that what is not written shows.
args.interface.buffers.forEach(({ kind, bytes }, at) => {
  if (kind !== "result" && kind !== "scratch") return;
  program.hold(at, bytes);
  device.queue.writeBuffer(program.buffers[at], 0, new Uint8Array(Math.max(bytes, 4)).fill(255));
});
const results = await program.run(args.operands.map(bytes));
program.destroy();
const text_of = (buffer) => btoa(Array.from(new Uint8Array(buffer), (one) => String.fromCharCode(one)).join(""));
return results.map(({ buffer }) => text_of(buffer));
"""


def run(browser, compiled, case, changes: tuple[str, str] = ("", "")) -> list[np.ndarray]:
    """Results in the browser of WGSL, in which one text may be replaced by another."""
    code = {name: text.decode().replace(*changes) for name, text in compiled.code.items()}
    operands = [base64.b64encode(np.ascontiguousarray(value).tobytes()).decode() for value in case.operands()]
    answer = browser.run(RUN, {"interface": compiled.interface, "code": code, "operands": operands})
    results = sorted(
        (row for row in compiled.interface["buffers"] if row["kind"] == "result"), key=lambda row: row["place"]
    )
    found = []
    for row, encoded in zip(results, answer, strict=True):
        count = int(np.prod(row["shape"], dtype=np.int64))
        found.append(np.frombuffer(base64.b64decode(encoded), row["dtype"], count).reshape(row["shape"]))
    return found


#: What Chromium refuses, with its reason: barriers in loops over texts, read from a buffer that the kernel writes.
REFUSED = {"attention_backward": "workgroupBarrier' must only be called from uniform control flow"}


@pytest.mark.parametrize("case", rows(LONG), ids=lambda case: case.id)
def test_a_browser_computes_the_operation(browser, case):
    compiled = compiled_for(case, "wgsl")
    if case.op in REFUSED:
        with pytest.raises(RuntimeError, match=REFUSED[case.op]):
            run(browser, compiled, case)
        return
    problem = fault(case, run(browser, compiled, case))
    assert problem is None, problem


@pytest.mark.parametrize(
    "name, text, other",
    [("layer_norm-3x65", "workgroupBarrier();", ""), ("softmax-3x65", "0.6933594", "0.7")],
)
def test_the_comparison_fails_for_a_kernel_that_is_wrong(browser, name, text, other):
    case = of(name)
    compiled = compiled_for(case, "wgsl")
    assert all(text.encode() in code for code in compiled.code.values())
    assert fault(case, run(browser, compiled, case, (text, other))) is not None


def test_the_browser_refuses_barriers_that_not_all_reach(browser):
    case = of("layer_norm-3x65")
    within = "if (slot > 1u) { workgroupBarrier(); }"
    with pytest.raises(RuntimeError, match="uniform control flow"):
        run(browser, compiled_for(case, "wgsl"), case, ("workgroupBarrier();", within))
