"""A browser with a GPU in software, for all tests of this folder; `make test-web` installs what they need."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from browser import Browser, programs
from conftest import need

from grilly import kernels

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "webgpu"
LAUNCHER = "examples/launch_browser"
RUNTIME = "src/embed/export/grilly.js"
#: What the page searches.
TEXT = """The cat sits on the mat and sleeps.
A kitten rests on a rug by the fire.
Interest rates rose by half a point in March.
The central bank fears that prices will climb.
Rain is expected over the northern hills tonight.
A storm closed the harbour for two days.
She baked bread with rye flour and honey.
The soup needs an hour and a little salt.
The orchestra played a symphony by Brahms.
He tuned the violin before the concert.
The rocket reached orbit after nine minutes.
Astronomers saw a comet near Jupiter.
"""


def need_web() -> None:
    present = all(programs()) and (EXAMPLE / "node_modules").is_dir()
    need("web", present, "`make test-web` installs Chromium, its driver and the page's tokenizer")


@pytest.fixture(scope="session")
def site(tmp_path_factory, real_model_path) -> Path:
    """The complete page."""
    need_web()
    folder = tmp_path_factory.mktemp("web") / "site"
    text = folder.parent / "text.txt"
    text.write_text(TEXT.replace("\n", "\n\n"))
    arguments = [folder, "--model", real_model_path, "--text", text]
    done = subprocess.run([sys.executable, EXAMPLE / "prepare.py", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def tools(tmp_path_factory) -> Path:
    """The launcher's page, with a kernel beside it, and the module that runs exports, where they are in a clone."""
    need_web()
    folder = tmp_path_factory.mktemp("tools")
    shutil.copytree(ROOT / LAUNCHER, folder / LAUNCHER)
    (folder / RUNTIME).parent.mkdir(parents=True)
    shutil.copy(ROOT / RUNTIME, folder / RUNTIME)
    kernels.get("softmax_dropout", hidden_dim=64, p=0.0).compile("wgsl", 4).write(folder / LAUNCHER / "softmax.wgsl")
    return folder


@pytest.fixture(scope="session")
def browser(tools):
    opened = Browser(tools)
    opened.open(f"{LAUNCHER}/?kernel=softmax.json")
    yield opened
    opened.close()
