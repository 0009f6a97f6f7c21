"""Writes docs/images/speed.svg, the chart of the README, from the measurements in benchmarks/results.

A bar is grilly's texts per second over those of sentence-transformers' fastest type in the same run.
"""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
CHART = ROOT / "docs" / "images" / "speed.svg"
GPU, CPU = "gpu-float16-minilm-nvidia-h200-2026-11-22", "cpu-intel-r-xeon-r-processor-2026-11-21"
LEFT, WIDTH, ROW, TOP = 250, 330, 34, 48
STYLE = (
    "text { font: 13px sans-serif; fill: #24292f } .small { font-size: 12px; fill: #57606a } .bar { fill: #2f7d5b } "
    ".one { stroke: #8c959f; stroke-dasharray: 3 3 } @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } "
    ".small { fill: #9198a1 } .bar { fill: #4db088 } }"
)


def workloads(name: str) -> dict:
    found = json.loads((RESULTS / f"{name}.json").read_text())
    return found["workloads"] if "workloads" in found else found["models"]["minilm"]["workloads"]


def bars() -> list[tuple[str, float, float]]:
    """Label, texts per second of grilly, and of sentence-transformers."""
    rows = []
    for device, name in (("H200, float16", GPU), ("two CPU cores, float32", CPU)):
        for texts in ("short", "long"):
            engines = workloads(name)[texts]
            theirs = [row["texts_per_second"] for key, row in engines.items() if key.startswith("sentence-")]
            rows.append((f"{device}, {texts} texts", engines["grilly"]["texts_per_second"], max(theirs)))
    return rows


def speed(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}"


def chart() -> str:
    rows = bars()
    longest = max(ours / theirs for _, ours, theirs in rows)
    height = TOP + ROW * len(rows) + 10
    title = "all-MiniLM-L6-v2: texts per second, grilly over sentence-transformers"
    one = LEFT + WIDTH / longest
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{height}" role="img" aria-label="{title}">',
        f"<style>{STYLE}</style>",
        f'<text x="12" y="24">{title}</text>',
        f'<line class="one" x1="{one:.1f}" y1="{TOP - 8}" x2="{one:.1f}" y2="{height - 8}"/>',
    ]
    for number, (label, ours, theirs) in enumerate(rows):
        y, length = TOP + ROW * number, WIDTH * ours / theirs / longest
        lines += [
            f'<text x="{LEFT - 10}" y="{y + 16}" text-anchor="end">{label}</text>',
            f'<rect class="bar" x="{LEFT}" y="{y}" width="{length:.1f}" height="22" rx="2"/>',
            f'<text x="{LEFT + length + 8:.1f}" y="{y + 16}">{ours / theirs:.1f} x '
            f'<tspan class="small">{speed(ours)} / {speed(theirs)}</tspan></text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    CHART.parent.mkdir(exist_ok=True)
    CHART.write_text(chart(), encoding="utf-8")
