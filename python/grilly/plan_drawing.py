"""A plan as a drawing: a box for each step, layers that are alike once."""

import re
from collections.abc import Sequence
from html import escape
from itertools import groupby

__all__ = ["drawn"]

#: Name, operation and operands of a step, as in a plan's text.
Step = tuple[str, str, str]

LAYER = re.compile(r"layer (\d+) ")
# An operand: its name before its shape.
OPERAND = re.compile(r"(?:^|, )(.*?)\[[^\]]*\]")
#: Colours by what an operation's name has in it.
COLOURS = (
    ("attention", "#f58518"),
    ("linear", "#4c78a8"),
    ("matmul", "#4c78a8"),
    ("norm", "#54a24b"),
    ("embedding", "#b279a2"),
    ("pool", "#b279a2"),
)
LEFT, WIDTH, HEIGHT, PITCH = 70, 380, 22, 32


def drawn(steps: Sequence[Step]) -> str:
    """An SVG of the steps from top to bottom; consecutive layers with the same steps are one, with their number.

    Args:
        steps: Name, operation and operands of each.

    Example:
        >>> from grilly.plan_drawing import drawn
        >>> steps = [("layer 0 out", "linear", "x[T, 8]"), ("layer 1 out", "linear", "layer 0 out[T, 8]")]
        >>> drawn(steps).count("<rect"), "× 2" in drawn(steps)
        (1, True)
    """
    boxes, groups = collapsed(steps)
    shown = sorted(set(boxes))
    parts = [frame(shown.index(first), shown.index(last), count) for first, last, count in groups if count > 1]
    parts += [line(shown.index(boxes[at]), place) for place, step in enumerate(shown) for at in read(steps, step)]
    parts += [box(place, *steps[step][:2], known=bool(LAYER.match(steps[step][0]))) for place, step in enumerate(shown)]
    size = f'width="{LEFT + WIDTH + 90}" height="{PITCH * len(shown) + 10}"'
    return f'<svg {size} font-family="sans-serif" font-size="12" fill="currentColor">{"".join(parts)}</svg>'


def collapsed(steps: Sequence[Step]) -> tuple[list[int], list[tuple[int, int, int]]]:
    """The step that is drawn for each step, and the groups: first and last step drawn, and how many layers that is."""
    boxes = list(range(len(steps)))
    groups: list[tuple[int, int, int]] = []
    for number, run in groupby(boxes[:], key=lambda at: layer_of(steps[at][0])):
        at = list(run)
        if number is None:
            groups.append((at[0], at[-1], 1))
            continue
        first, last, count = groups[-1] if groups else (0, -1, 0)
        alike = [kind(steps[step]) for step in at] == [kind(steps[step]) for step in range(first, last + 1)]
        if alike:
            groups[-1] = (first, last, count + 1)
            for step, other in zip(at, range(first, last + 1), strict=True):
                boxes[step] = other
        else:
            groups.append((at[0], at[-1], 1))
    return boxes, groups


def layer_of(name: str) -> str | None:
    """The number of the layer that a step is part of."""
    found = LAYER.match(name)
    return found[1] if found else None


def kind(step: Step) -> tuple[str, str]:
    """What two steps of like layers have in common: the name without the layer's number, and the operation."""
    return LAYER.sub("", step[0]), step[1]


def read(steps: Sequence[Step], at: int) -> list[int]:
    """The earlier steps whose results a step reads.

    A result has the name of its step, of a fused one the name of a part (`out + residual`), and may have a word more.
    """
    written = {part: place for place, (name, _, _) in enumerate(steps[:at]) for part in name.split(" + ")}
    names = OPERAND.findall(steps[at][2])
    found = (written.get(name, written.get(name.rpartition(" ")[0])) for name in names)
    return sorted({place for place in found if place is not None})


def box(place: int, name: str, operation: str, *, known: bool) -> str:
    """A step: its operation, and its name, without the number of a layer."""
    y = 5 + PITCH * place
    colour = next((colour for word, colour in COLOURS if word in operation), "#888888")
    told = escape(LAYER.sub("", name) if known else name)
    label = f'<tspan font-weight="bold">{escape(operation)}</tspan> {told}'
    shape = f'x="{LEFT}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="3"'
    paint = f'fill="{colour}" fill-opacity="0.3" stroke="{colour}"'
    return f'<rect {shape} {paint}/><text x="{LEFT + 8}" y="{y + 15}">{label}</text>'


def line(source: int, target: int) -> str:
    """From a box to one below: straight to the next, else around those between."""
    begin, end = 5 + PITCH * source + HEIGHT, 5 + PITCH * target
    if target == source + 1:
        x = LEFT + WIDTH / 2
        path = f"M{x} {begin}V{end}"
    else:
        x, far = LEFT + WIDTH, LEFT + WIDTH + min(80, 16 + 8 * (target - source))
        path = f"M{x} {begin - HEIGHT / 2}C{far} {begin} {far} {end} {x} {end + HEIGHT / 2}"
    return f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity="0.6"/>'


def frame(first: int, last: int, count: int) -> str:
    """A bracket at the left of boxes, with the number of layers."""
    top, bottom = 5 + PITCH * first, 5 + PITCH * last + HEIGHT
    bracket = f'<path d="M{LEFT - 6} {top}h-8V{bottom}h8" fill="none" stroke="currentColor"/>'
    return f'{bracket}<text x="{LEFT - 20}" y="{(top + bottom) / 2 + 4}" text-anchor="end">× {count}</text>'
