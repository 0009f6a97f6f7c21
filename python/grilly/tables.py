"""Tables in notebooks: what Jupyter shows of `info()`, `model.plan` and `profile()` in place of their text."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from grilly.closed import closed

__all__ = ["Facts", "PlanText", "bar", "table"]

# A step of a plan as text: number, operation, operands, results, name.
STEP = re.compile(r" *(\d+) (\w+) \((.*)\) -> (.*) as (.*)")

TEXT, NUMBER = "text-align:left;max-width:40em;overflow-wrap:anywhere", "text-align:right"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], *, first: str = "") -> str:
    """An HTML table with a line above it; cells are escaped, but for those that `bar` gives.

    Example:
        >>> from grilly.tables import table
        >>> table(["a"], [[1]]).partition("</thead>")[2]
        '<tbody><tr><td style="text-align:right">1</td></tr></tbody></table>'
    """
    caption = f'<caption style="text-align:left">{escape(first)}</caption>' if first else ""
    heads = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def escape(text: str) -> str:
    """Text as HTML; its module takes longer to import than the rest of this one."""
    from html import escape

    return escape(text)


class Markup(str):
    """HTML that is not escaped again."""


def cell(value: Any) -> str:
    """A cell of a table, numbers at the right."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    style = NUMBER if number else TEXT
    return f'<td style="{style}">{value if isinstance(value, Markup) else escape(str(value))}</td>'


def bar(share: float) -> Markup:
    """A bar whose length is a share from 0 to 1.

    Example:
        >>> from grilly.tables import bar
        >>> "width:50.0%" in bar(0.5)
        True
    """
    inner = f'<div style="width:{100 * share:.1f}%;height:0.8em;background:#4c78a8"></div>'
    return Markup(f'<div style="width:8em">{inner}</div>')


@closed()
class Facts(dict[str, Any]):
    """What `grilly.info()` returns: a dict, which notebooks show as a table.

    Example:
        >>> import grilly
        >>> facts = grilly.info()
        >>> isinstance(facts, dict), facts["version"] in facts._repr_html_()
        (True, True)
    """

    def _repr_html_(self) -> str:
        choice, cpu = self["choice"], self["cpu"]
        rows = [
            (
                device["name"],
                device["unusable"] or f"vulkan:{device['position']}",
                device["type"],
                f"{device['memory'] / 2**30:.1f} GiB",
                f"Vulkan {device['api']}, {device['driver']}",
                ", ".join(device["features"]),
            )
            for device in self["devices"]
        ]
        rows.append((cpu["name"], "cpu", f"{cpu['threads']} threads", "", cpu["simd"], ""))
        line = f'grilly {self["version"]}: device="vulkan" is {choice["name"]} ({choice["reason"]})'
        return table(("device", "name, or why not", "type", "memory", "driver", "features"), rows, first=line)


@closed()
class PlanText(str):
    """What `model.plan` returns: a str, which notebooks show as a drawing, a table of the steps, and the other lines.

    Example:
        >>> model.plan.startswith("  0 "), model.plan._repr_html_().count("<tr>") > 10
        (True, True)
    """

    def drawing(self) -> str:
        """An SVG: a box for each step, layers that are alike once, and a line wherever a step reads another's result.

        Example:
            >>> model.plan.drawing().startswith("<svg "), "× 6" in model.plan.drawing()
            (True, True)
        """
        from grilly.plan_drawing import drawn

        return drawn([(name, operation, reads) for _, operation, reads, _, name in self._steps()])

    def _steps(self) -> list[tuple[str, ...]]:
        return [found.groups() for found in map(STEP.fullmatch, self.splitlines()) if found]

    def _repr_html_(self) -> str:
        steps = self._steps()
        rest = "\n".join(line for line in self.splitlines() if not STEP.fullmatch(line))
        rows = ((int(number), name, operation, reads, writes) for number, operation, reads, writes, name in steps)
        shown = table(("", "step", "operation", "reads", "writes"), rows, first=f"{len(steps)} steps of a batch")
        drawing = f'<div style="max-height:40em;overflow:auto">{self.drawing()}</div>'
        rest = f"<details><summary>buffers, fusion, numerics</summary><pre>{escape(rest)}</pre></details>"
        return f"{drawing}<details><summary>{len(steps)} steps as a table</summary>{shown}</details>{rest}"
