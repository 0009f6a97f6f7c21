"""The command `grilly` in a process of its own, and texts for it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from . import TEXTS

Grilly = Callable[..., subprocess.CompletedProcess]


@pytest.fixture(scope="session")
def shell(tmp_path_factory, real_model_path) -> dict[str, str]:
    """An environment whose PATH has `grilly`, as the console script of pyproject.toml, and whose home is empty."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "bin").mkdir()
    script = folder / "bin" / "grilly"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m grilly "$@"\n')
    script.chmod(0o755)
    own = {"HOME": str(folder), "PATH": f"{script.parent}:{os.environ['PATH']}", "GRILLY_DEBUG": "0"}
    nothing = str(folder / "no_driver.json")
    own |= {"HF_HUB_OFFLINE": "1", "VK_DRIVER_FILES": nothing, "VK_ICD_FILENAMES": nothing}
    return os.environ | own


@pytest.fixture
def grilly(shell, tmp_path) -> Grilly:
    """`grilly(*arguments, stdin="")`: the finished process, in an empty folder."""

    def run(*arguments: object, stdin: str | bytes = "", **environment: str) -> subprocess.CompletedProcess:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        command = [sys.executable, "-m", "grilly", *map(str, arguments)]
        done = subprocess.run(
            command, input=given, env=shell | environment, cwd=tmp_path, capture_output=True, timeout=300
        )
        return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def small(checkpoint, monkeypatch) -> Iterator[list[str]]:
    """Options that choose the random two-layer BERT on the CPU."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    yield ["--model", str(checkpoint("base")), "--device", "cpu"]


@pytest.fixture
def real(real_model_path, monkeypatch) -> Iterator[list[str]]:
    """Options that choose the real model on the CPU."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    yield ["--model", str(real_model_path), "--device", "cpu"]


@pytest.fixture
def texts(tmp_path) -> Path:
    """A file with a text on each line, two of which are alike and two the same."""
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path
