"""Writes the figures of docs/guides/concepts.md to docs/images: padding, same bits, exact sums, precision, fallback.

Colours follow the reader's light or dark page; the width is such that letters can be read on a telephone.
"""

from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "images"
WIDTH = 480
STYLE = (
    "text { font: 14px sans-serif; fill: #24292f } .small { font-size: 12px; fill: #57606a } "
    ".in { font-size: 12px } .tiny { font-size: 10.5px } .mono { font-family: monospace; font-size: 12px } "
    "rect { stroke: #8c959f } .a { fill: #b6dcc8 } .b { fill: #f5d9a8 } .c { fill: #c5d3f2 } .none { fill: none; "
    "stroke-dasharray: 3 3 } .bad { fill: #f4c3c0 } .line { stroke: #57606a; stroke-width: 1.5; fill: none } "
    ".bad-line { stroke: #cf222e; stroke-width: 2.5 } "
    "@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9198a1 } rect { stroke: #6e7681 } "
    ".a { fill: #1f5f41 } .b { fill: #6b4a12 } .c { fill: #2f4477 } .bad { fill: #7a2b28 } .line { stroke: #9198a1 } "
    ".bad-line { stroke: #ff7b72 } }"
)


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{words}</text>'


def box(x: float, y: float, width: float, height: float, kind: str, words: str = "") -> str:
    inner = text(x + width / 2, y + height / 2 + 4, words, "in", "middle") if words else ""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" class="{kind}"/>{inner}'


def line(*points: float, kind: str = "line") -> str:
    pairs = " ".join(f"{x:g},{y:g}" for x, y in zip(points[::2], points[1::2], strict=True))
    return f'<polyline points="{pairs}" class="{kind}"/>'


def svg(title: str, height: int, parts: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return "\n".join([f'{head} role="img" aria-label="{title}">', f"<style>{STYLE}</style>", *parts, "</svg>"]) + "\n"


def padding() -> str:
    """Three texts of 3, 8 and 1 tokens: padded to 24 places, and end to end in 12."""
    lengths = (("a", 3), ("b", 8), ("c", 1))
    parts = [text(8, 22, "padded: 24 places for 12 tokens")]
    for row, (kind, length) in enumerate(lengths):
        parts += [box(8 + 36 * at, 34 + 26 * row, 34, 22, kind if at < length else "none") for at in range(8)]
    parts += [text(8, 148, "end to end: 12 places, and where each text begins")]
    begin = 0
    for kind, length in lengths:
        parts += [box(8 + 36 * at, 160, 34, 22, kind) for at in range(begin, begin + length)]
        parts += [text(25 + 36 * begin, 200, str(begin), "small", "middle")]
        begin += length
    return svg("Three texts of 3, 8 and 1 tokens, padded to 24 places, and end to end in 12", 210, parts)


def tree(x: float, y: float, kind: str) -> list[str]:
    """A sum of eight terms, in pairs; its root is 56 below and 70 to the right."""
    parts = [box(x + 20 * at, y, 16, 16, kind) for at in range(8)]
    places, y = [x + 8 + 20 * at for at in range(8)], y + 16
    while len(places) > 1:
        parents = [(left + right) / 2 for left, right in zip(places[::2], places[1::2], strict=True)]
        for at, place in enumerate(places):
            parts.append(line(place, y, parents[at // 2], y + 13))
        places, y = parents, y + 13
    return [*parts, f'<circle cx="{places[0]:g}" cy="{y:g}" r="4" class="{kind}"/>']


def same_bits() -> str:
    """The same tree of additions for a text alone and among others."""
    parts = [text(8, 22, "alone"), *tree(8, 34, "a"), text(200, 22, "in a batch of three")]
    for row, kind in enumerate("bac"):
        parts += tree(200 + 56 * row, 34 + 66 * row, kind)
    parts += [text(8, 130, "The order of additions"), text(8, 150, "is that of the row:")]
    parts += [text(8, 170, "equal to the last bit.")]
    return svg("The additions of a row have the same order alone and in a batch of three", 240, parts)


def exact_sums() -> str:
    """Two orders of one sum, rounded and exact."""
    parts = [text(196, 22, "float32", anchor="middle"), text(382, 22, "sum of integers", anchor="middle")]
    cells = (
        (108, 36, "bad", "16777216 + 1 → 16777216", "→ 0"),
        (294, 36, "a", "16777216 + 1 → 16777217", "→ 1"),
        (108, 98, "a", "16777216 − 16777216 → 0", "→ 1"),
        (294, 98, "a", "16777216 − 16777216 → 0", "→ 1"),
    )
    parts += [text(8, 66, "(a + b) + c", "mono"), text(8, 128, "(a + c) + b", "mono")]
    for x, y, kind, first, then in cells:
        parts += [box(x, y, 178, 50, kind), text(x + 89, y + 20, first, "tiny", "middle")]
        parts.append(text(x + 89, y + 41, then, anchor="middle"))
    parts.append(text(8, 180, "a = 16777216, b = 1, c = −16777216. The sum is 1.", "small"))
    return svg("a + b + c in two orders: float32 gives 0 and 1, a sum of integers 1 and 1", 192, parts)


def precision() -> str:
    """The bits of the four types."""
    rows = (
        ("float32", ((1, "a", ""), (8, "b", "8 exponent"), (23, "c", "23 fraction"))),
        ("float16", ((1, "a", ""), (5, "b", "5"), (10, "c", "10"))),
        ("bfloat16", ((1, "a", ""), (8, "b", "8"), (7, "c", "7"))),
        ("int8", ((8, "c", "8"),)),
    )
    parts = []
    for row, (name, fields) in enumerate(rows):
        x, y = 84.0, 10 + 34 * row
        parts.append(text(8, y + 18, name))
        for bits, kind, words in fields:
            parts.append(box(x, y, 12 * bits - 2, 24, kind, words))
            x += 12 * bits
        if name == "int8":
            parts.append(text(x + 8, y + 17, "and one float32 scale for a row", "small"))
    return svg("Bits of sign, exponent and fraction of three types of floats, and the 8 bits of int8", 148, parts)


def fallback() -> str:
    """Six batches; the device fails at the fourth."""
    parts = [text(8, 22, "GPU"), text(8, 82, "CPU"), text(8, 142, "rows")]
    for at in range(6):
        x, kind = 64 + 66 * at, "a" if at < 3 else "c"
        parts.append(box(x, 6 if at < 3 else 66, 56, 24, kind, f"batch {at + 1}"))
        parts.append(line(x + 28, 31 if at < 3 else 91, x + 28, 125))
        parts.append(box(x, 126, 56, 24, kind))
    parts += [line(268, 8, 288, 28, kind="bad-line"), line(288, 8, 268, 28, kind="bad-line")]
    parts.append(text(300, 24, "lost: one warning"))
    return svg("The device fails at the fourth of six batches; the CPU computes the last three", 160, parts)


FIGURES: dict[str, Callable[[], str]] = {
    "padding": padding,
    "same-bits": same_bits,
    "exact-sums": exact_sums,
    "precision": precision,
    "fallback": fallback,
}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, figure in FIGURES.items():
        (FOLDER / f"{name}.svg").write_text(figure(), encoding="utf-8")
