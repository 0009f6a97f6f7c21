"""The first lines of a report, which its reader needs no other program for."""

from __future__ import annotations

from typing import Any

from grilly.devices import format_info
from grilly.report.parts import PARTS

__all__ = ["failures", "summary"]

Report = dict[str, Any]


def failures(report: Report) -> list[str]:
    """What failed, is wrong or did not run, a line each.

    Example:
        >>> from grilly.report.summary import failures
        >>> failures({"checks": {"softmax": {"failed": "DeviceLostError: lost"}, "relu": {"verdict": "right"}}})
        ['checks, softmax: failed: DeviceLostError: lost']
    """
    found = []
    for part in PARTS:
        rows = report.get(part, {})
        left = [row["not_run"] for row in rows.values() if "not_run" in row]
        found += [f"{part}: {left.count(why)} of {len(rows)} not run: {why}" for why in sorted(set(left))]
        for name, row in rows.items():
            if "failed" in row:
                found.append(f"{part}, {name}: failed: {row['failed']}")
            if row.get("verdict") == "wrong":
                of = "other bits than the CPU's" if part == "same_bits" else row.get("text", "")
                found.append(f"{part}, {name}: wrong: {of}")
    return found


def summary(report: Report) -> list[str]:
    """The lines: versions, devices, speeds, what was checked, and what failed.

    Example:
        >>> from grilly.report.machine import versions
        >>> from grilly.report.summary import summary
        >>> summary({"asked": "cpu", "finished": True, "versions": versions()})[1]
        'device asked for: cpu'
    """
    lines = [
        ", ".join(
            f"{name} {text}" if name in ("grilly", "numpy") else text for name, text in report["versions"].items()
        )
    ]
    lines.append(f"device asked for: {report['asked']}")
    if not report["finished"]:
        lines.append("NOT FINISHED: the program ended before this report did")
    device = report.get("device", {})
    opened = device.get("opened", {})
    if "backend" in opened:
        lines.append(f"what ran: {opened['name']} ({opened['backend']}): {opened['reason']}")
        if opened["backend"] == "cpu" and report["asked"] != "cpu":
            lines.append("NO DEVICE IN USE: the CPU ran everything below")
    if "devices" in device.get("info", {}):
        lines += format_info(device["info"] | {"environment": report["environment"]}).splitlines()
    for name, answer in device.get("probes", {}).items():
        if not isinstance(answer, str):
            lines.append(f"probed: {name}: {'not asked' if answer is None else answer}")
    for name, row in report.get("timings", {}).items():
        if "speed" in row:
            lines.append(
                f"speed, {name} {row['size']}: {row['speed']:g} {row['unit']}, {row['seconds']:g} s ({row['ran_on']})"
            )
    for part, what in (("same_bits", "bits as on the CPU"), ("checks", "within the bounds of the tests")):
        rows = report.get(part, {}).values()
        counts = {kind: sum(kind == row.get("verdict") or kind in row for row in rows) for kind in KINDS}
        lines.append(f"{what}: " + ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in counts.items()))
    ran = [row["ran_on"] for row in report.get("checks", {}).values() if "ran_on" in row]
    lines.append(
        "ran the checks: " + (", ".join(f"{place} {ran.count(place)}" for place in sorted(set(ran))) or "nothing")
    )
    nearest = [
        (row["of_bound"], name) for name, row in report.get("checks", {}).items() if row.get("of_bound") is not None
    ]
    if nearest:
        lines.append("nearest to its bound: {1}, {0:g} of it".format(*max(nearest)))
    return lines + [f"FAILURE: {line}" for line in failures(report)]


#: Of rows: verdicts, and why there is none.
KINDS = ("right", "wrong", "refused", "failed", "not_run")
