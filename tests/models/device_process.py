"""Runs `device_run` in a process with its own environment and reads back what it wrote."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from .golden import per_text

TESTS = Path(__file__).parent.parent


@dataclass
class Outcome:
    """What one process saw; `record` holds the backend, counters, device list, validation messages and equal bits."""

    embeddings: np.ndarray
    ids: list[list[int]]
    record: dict

    def spent(self, counter: str) -> int:
        """How much a counter grew during the one encode of all texts."""
        return self.record["after"][counter] - self.record["before"][counter]


def run(model: Path, texts: list[str], scratch: Path, environment: dict[str, str], bits: bool) -> Outcome:
    """Fails the test, with the process's output, if it does not end well."""
    (scratch / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    output = scratch / "outcome.npz"
    command = [sys.executable, "-m", "models.device_run", str(model), str(scratch / "texts.json"), str(output)]
    finished = subprocess.run(
        command + ["--bits"] * bits, cwd=TESTS, env=os.environ | environment, capture_output=True, text=True
    )
    if finished.returncode != 0:
        pytest.fail(f"{' '.join(command)}\n{environment}\n{finished.stdout}\n{finished.stderr}", pytrace=False)
    with np.load(output) as file:
        return Outcome(file["embeddings"], per_text(file["ids"]), json.loads(str(file["record"])))
