"""`python -m grilly report`: what it has of each device, and what it says of faults, crashes and wrong numbers."""

import getpass
import json
import re
import socket
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import CASES
from cases.bounds import bound
from cases.reference import evaluate
from conftest import LONG, is_software
from export_cases import bounds, rounded_to_bfloat16, tuples

from grilly import _core
from grilly.__main__ import main
from grilly.report import command, machine, parts, processes
from grilly.report.judgement import judged
from grilly.report.rows import ROWS
from grilly.report.summary import failures, summary

BY_NAME = {case.id: case for case in CASES}
SECTIONS = ["summary", "asked", "finished", "versions", "environment", *parts.PARTS]
CHECK = "softmax-3x1025"


@pytest.fixture
def prepared(monkeypatch):
    """`prepared(code)`: processes of a report run code first; `share` leaves one row of so many of each long part."""

    def prepare(code: str = "", share: int = 1) -> None:
        for part in ("same_bits", "checks"):
            names = [name for place, name in enumerate(parts.PARTS[part]) if place % share == 0 or name == CHECK]
            monkeypatch.setitem(parts.PARTS, part, {name: parts.PARTS[part][name] for name in names})
            code = f"parts.PARTS[{part!r}] = {{n: parts.PARTS[{part!r}][n] for n in {names!r}}}\n{code}"
        start = "import os, time\nfrom grilly import testing\nfrom grilly.report import parts, timings"
        code = f"{start}\ntimings.SECONDS = 1e-3\n{code}\nparts.main()"
        # A software driver beside another test process may be slow.
        monkeypatch.setattr(command, "SECONDS", 500.0)
        monkeypatch.setattr(processes, "COMMAND", [sys.executable, "-c", code])

    return prepare


def written(path: Path, device: str, *more: str) -> tuple[int, dict]:
    status = main(["report", "--device", device, "--out", str(path), *more])
    return status, json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.label)
def test_a_row_is_the_tables_with_its_reference_and_bound(row):
    case = BY_NAME[row.name]
    operands = case.operands()
    if row.dtype == "bfloat16":
        operands = [rounded_to_bfloat16(value) for value in operands]
    else:
        assert case.dtype == row.dtype and case.attributes == row.attributes
    own = [np.asarray(value) for value in row.operands()]
    assert [(x.dtype, x.shape, x.tobytes()) for x in own] == [(x.dtype, x.shape, x.tobytes()) for x in operands]
    y = evaluate(case.op, operands, case.attributes)
    allowed = bound(case.op, operands, case.attributes, y, row.dtype == "float16")
    if row.dtype == "bfloat16":
        allowed = bounds(case, operands, y, "bfloat16")[1]
    expected = row.expected()
    for found, wanted, limit, other in zip(expected, tuples(y), row.allowed(expected), tuples(allowed), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(*np.broadcast_arrays(limit, other), rtol=1e-9, atol=0)
        assert np.isfinite(wanted).all()


def test_every_operation_of_inference_is_checked():
    of_parts = {"attention_scores", "attention_mask", "attention_bias", "attention_output"}
    told = {name for name, what in _core.everywhere_rows() if what in ("promised", "steps")}
    assert {row.operation for row in ROWS} == told | of_parts
    assert {row.dtype for row in ROWS} == {"float32", "float16", "bfloat16"}
    assert len({row.label for row in ROWS}) == len(ROWS) and set(parts.SAME_BITS) == set(parts.PARTS["same_bits"])


def test_a_report_has_all_sections_and_every_check_is_within_its_bound(device, tmp_path, prepared, capsys):
    prepared(share=6 if is_software(device) and not LONG else 1)
    status, report = written(tmp_path / "report.txt", device)
    assert list(report) == SECTIONS and report["finished"] and failures(report) == [] and status == 0
    assert report["device"]["opened"]["backend"] == device
    assert report["device"]["info"]["choice"]["name"] in {row["name"] for row in report["device"]["info"]["devices"]}
    for part in ("timings", "same_bits", "checks"):
        assert list(report[part]) == list(parts.PARTS[part])
    for row in report["checks"].values():
        assert row["verdict"] == "right" and row["error"] <= row["bound"]
        # A device without bfloat16 computes it wider; nothing runs on the CPU.
        assert row["ran_on"] == device and bool(row["kernels"]) == (device == "vulkan")
    assert all(re.fullmatch("[0-9a-f]{64}", row["sha256"]) for row in report["same_bits"].values())
    assert all(row["speed"] > 0 and row["unit"] in ("GB/s", "GFLOP/s") for row in report["timings"].values())
    told = capsys.readouterr().out
    assert "\n".join(report["summary"]) in told and told.endswith("please attach it to an issue.\n")
    assert report["summary"] == summary(report)
    if device == "vulkan":
        assert list(report["device"]["probes"]) == ["matrix_rows_in_lanes", "packs_to_nearest"]


@pytest.mark.vulkan
def test_a_fault_is_a_failure_and_the_rest_is_there(vulkan, tmp_path, prepared):
    prepared("testing.inject_fault('device_lost', 3, 1)", share=20)
    status, report = written(tmp_path / "report.json", vulkan)
    assert status == 1 and list(report) == SECTIONS and report["finished"]
    checks = report["checks"]
    (lost,) = (name for name, row in checks.items() if "failed" in row)
    assert checks[lost]["failed"].startswith("DeviceLostError: ")
    assert all(row["verdict"] == "right" for name, row in checks.items() if name != lost)
    assert f"FAILURE: checks, {lost}: failed: {checks[lost]['failed']}" in report["summary"]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (
            "os.write(2, b'driver: /home/a/b.so is no more'), os.kill(os.getpid(), 11)",
            "by signal 11: driver: b.so is no",
        ),
        ("time.sleep(60)", "by signal 9"),
        ("os._exit(3)", "with 3"),
    ],
    ids=["crash", "hang", "exit"],
)
def test_a_process_that_ends_takes_a_row_alone(tmp_path, prepared, monkeypatch, code, why):
    monkeypatch.setattr(processes, "ROW_SECONDS", 15.0)
    prepared(f"parts.PARTS['checks'][{CHECK!r}] = lambda device: ({code})", share=20)
    status, report = written(tmp_path / "report.json", "cpu")
    checks = report["checks"]
    assert status == 1 and checks[CHECK]["failed"].startswith(f"the process ended {why}")
    assert len(checks) > 4 and all(row["verdict"] == "right" for name, row in checks.items() if name != CHECK)


def test_no_more_processes_than_a_few(tmp_path, prepared):
    prepared("parts.PARTS['checks'] = dict.fromkeys(parts.PARTS['checks'], lambda device: os._exit(3))", share=5)
    _, report = written(tmp_path / "report.json", "cpu")
    rows = list(report["checks"].values())
    assert len(rows) > processes.MOST_PROCESSES and report["finished"]
    assert [list(row) for row in rows] == [["failed"]] * 6 + [["not_run"]] * (len(rows) - 6)
    told = f"FAILURE: checks: {len(rows) - 6} of {len(rows)} not run: 6 processes ended"
    assert told in report["summary"]


def test_what_was_written_stays_where_the_program_ends(tmp_path, monkeypatch):
    def stopped(part, device, end):
        yield "info", {"failed": "one"}
        raise KeyboardInterrupt

    monkeypatch.setattr("grilly.report.command.rows_of", stopped)
    with pytest.raises(KeyboardInterrupt):
        main(["report", "--device", "cpu", "--out", str(tmp_path / "report.json")])
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["device"] == {"info": {"failed": "one"}} and not report["finished"]
    assert report["summary"][2].startswith("NOT FINISHED")


@pytest.mark.parametrize("by", [1.5, np.nan, np.inf], ids=str)
def test_a_wrong_number_is_told(monkeypatch, by):
    (row,) = (row for row in ROWS if row.label == CHECK)
    called = parts._called

    def altered(device, row):
        results = called(device, row)
        results[0][1, 7] += by * row.allowed(row.expected())[0][1, 7]
        return results

    assert parts.check(row, "cpu")["verdict"] == "right"
    monkeypatch.setattr(parts, "_called", altered)
    found = parts.check(row, "cpu")
    assert found["verdict"] == "wrong" and "1 of 3075 elements; at [1, 7]" in found["text"]
    assert found["of_bound"] is None or found["of_bound"] > 1
    assert failures({"checks": {CHECK: found}}) == [f"checks, {CHECK}: wrong: {found['text']}"]


def test_the_judgement_of_shapes_and_of_exact_results():
    one = np.ones((2, 3))
    assert judged([one[0]], [one], [one])["verdict"] == "wrong"
    assert judged([one], [one], [0 * one]) == {"verdict": "right", "error": 0.0, "bound": 0.0, "of_bound": 0.0}
    off = judged([one, one + 1], [one, one], [one, 0 * one])
    assert off["verdict"] == "wrong" and off["error"] == 1.0 and off["bound"] == 0.0 and off["of_bound"] is None
    assert judged([one], [one + 0.5], [one])["of_bound"] == 0.5


def test_other_bits_are_told(monkeypatch):
    (row,) = (row for row in ROWS if row.label == CHECK)
    called = parts._called
    monkeypatch.setattr(
        parts, "_called", lambda device, row, mode: [x + (device == "vulkan") for x in called("cpu", row, mode)]
    )
    assert parts.same_bits(row, "cpu")["verdict"] == "right"
    assert failures({"same_bits": {CHECK: parts.same_bits(row, "vulkan")}}) == [
        f"same_bits, {CHECK}: wrong: other bits than the CPU's"
    ]


def test_a_device_that_is_not_there_is_told_and_no_fallback_is_silent(tmp_path, prepared, monkeypatch, no_vulkan):
    for name, value in no_vulkan.items():
        monkeypatch.setenv(name, value)
    prepared(share=40)
    status, report = written(tmp_path / "one.json", "vulkan:0")
    assert status == 1 and {tuple(row) for row in report["checks"].values()} == {("failed",)}
    status, report = written(tmp_path / "other.json", "auto")
    assert status == 0 and report["device"]["opened"]["backend"] == "cpu"
    assert "NO DEVICE IN USE: the CPU ran everything below" in report["summary"]
    assert {row["ran_on"] for row in report["checks"].values()} == {"cpu"}


def test_a_file_that_is_there_stays(tmp_path, prepared, capsys):
    prepared(share=40)
    path = tmp_path / "report.json"
    path.write_text("mine")
    assert main(["report", "--device", "cpu", "--out", str(path)]) == 1
    assert "--overwrite replaces it" in capsys.readouterr().err and path.read_text() == "mine"
    assert written(path, "cpu", "--overwrite")[1]["finished"]
    assert main(["report", "--device", "cuda", "--out", str(tmp_path / "no.json")]) == 1
    assert "device is 'cuda', expected auto" in capsys.readouterr().err and not (tmp_path / "no.json").exists()


def test_nothing_of_the_owner_is_in_it(tmp_path, prepared, monkeypatch):
    private = {"HOME": "/home/jane.doe", "USER": "jane.doe", "LOGNAME": "jane.doe", "LNAME": "jane.doe"}
    own = {"VK_LAYER_PATH": "/home/jane.doe/layers:/srv/jane/more", "GRILLY_TEST_MODEL": "/home/jane.doe/model"}
    for name, value in (private | own | {"SECRET_TOKEN": "hush", "XDG_CACHE_HOME": str(tmp_path / "cache")}).items():
        monkeypatch.setenv(name, value)
    host = socket.gethostname()
    monkeypatch.setattr(socket, "gethostname", lambda: "janes-machine.example.org")
    machine._names.cache_clear()
    try:
        prepared(f"parts.PARTS['checks'][{CHECK!r}] = lambda device: open('/home/jane.doe/jane.doe/x')", share=40)
        _, report = written(tmp_path / "report.json", "cpu")
        assert machine.clean("janes-machine: jane.doe said so in ~jane.doe/a") == "...: ... said so in a"
    finally:
        machine._names.cache_clear()
    text = (tmp_path / "report.json").read_text(encoding="utf-8")
    found = [
        word for word in ("jane", "/home", "hush", "SECRET", str(tmp_path), str(Path.cwd()), sys.prefix) if word in text
    ]
    assert found == [] and not re.search(rf"\b({re.escape(host)}|{re.escape(getpass.getuser())})\b", text)
    assert "FileNotFoundError" in report["checks"][CHECK]["failed"]
    assert report["environment"]["VK_LAYER_PATH"] == "layers:more"
    assert report["environment"].keys() <= {name for name in report["environment"] if machine.OWN.fullmatch(name)}
