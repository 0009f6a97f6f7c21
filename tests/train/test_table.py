"""`python -m grilly train --table`: what it measures, and the numbers beside it."""

import re

import pytest

from grilly.__main__ import main
from grilly.errors import UnsupportedError
from grilly.train import TransformerConfig, table

#: MB of parameters, gradients and moments of the smallest model.
OWN = 16 * TransformerConfig.tiny().parameter_count() / 1e6


def test_the_tables_of_a_device(device, capsys, monkeypatch):
    from conftest import LONG, is_software

    windows = 1 if is_software(device) and not LONG else 8
    monkeypatch.setattr(table, "STEPS", ((windows, False), (windows, True)))
    monkeypatch.setattr(table, "SECONDS", 1e-3)
    monkeypatch.setattr(table, "ROWS", {"cpu": 64, "gpu": 64})
    assert main(["train", "--table", "--models", "tiny", "--device", device]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[2].split() == ["tiny", "specified", "40", "100", "200"]
    rows = [re.match(rf" +batch {windows}(, checkpointing)? +13 +40 +(\d+) +(\d+)$", line) for line in told[3:5]]
    (rest, total), (less, fewer) = ([int(n) for n in row.groups()[1:]] for row in rows)
    # Each number is rounded.
    assert abs(total - rest - OWN) <= 1 and abs(fewer - less - OWN) <= 1
    assert OWN < fewer < total <= (200 if device == "vulkan" else 300)
    speeds = {line[:32].strip(): line[32:].split() for line in told[8:]}
    assert [name.split(",")[0] for name in speeds] == ["GEMM 512 x 512 x 512", "softmax", "layer norm"]
    assert all(float(words[0]) > 0 and words[1] == words[3] == words[5] for words in speeds.values())
    assert [words[2] for words in speeds.values()] == ["2", "500", "400"]


def test_only_the_named_models_are_measured(capsys, monkeypatch):
    def refused(*step):
        raise UnsupportedError(f"not measured: {step}")

    monkeypatch.setattr(table, "_apart", refused)
    rows = list(table.memory_rows("cpu", ["small", "medium"]))
    assert [row[0] for row in rows if row[0]] == ["small", "medium"] and len(rows) == 6
    assert rows[1][2] == "not measured: ('cpu', 'small', 8, False)"
    with pytest.raises(SystemExit):
        main(["train", "--table", "--models", "large"])
    assert "invalid choice: 'large'" in capsys.readouterr().err
    assert main(["train", "--out", "run"]) == 1
    assert "--data and --out are needed" in capsys.readouterr().err
