"""What an evaluator gives beside what sentence-transformers' evaluator of the same name gives: metrics and files."""

import csv
import math

UNIT = 1e-6


def compare(ours, theirs, models, folder, unit=UNIT):
    """Calls both twice with a folder, the second time in an epoch."""
    found, expected = (
        [evaluator(model, str(folder / side)), evaluator(model, str(folder / side), 2, 30)][1]
        for evaluator, model, side in zip((ours, theirs), models, ("ours", "theirs"))
    )
    assert list(found) == list(expected)
    assert {key: (found[key], value) for key, value in expected.items() if not near(found[key], value, unit)} == {}
    # Evaluators of pairs call no constructor of their base there.
    assert ours.primary_metric == theirs.primary_metric and ours.greater_is_better is getattr(
        theirs, "greater_is_better", True
    )
    assert ours.csv_file == theirs.csv_file and ours.csv_headers == theirs.csv_headers
    assert ours.description == theirs.description
    files = [sorted(path.name for path in (folder / side).iterdir()) for side in ("ours", "theirs")]
    assert files[0] == files[1] and files[0]
    left, right = (list(csv.reader((folder / side / ours.csv_file).open(newline=""))) for side in ("ours", "theirs"))
    assert left[0] == right[0] and len(left) == len(right) == 3 and left[2][:2] == ["2", "30"]
    for row, other in zip(left[1:], right[1:]):
        assert len(row) == len(other) and all(near(float(a), float(b), unit) for a, b in zip(row, other))


def near(a, b, unit):
    return (math.isnan(a) and math.isnan(b)) or abs(a - b) <= unit * max(1.0, abs(b))
