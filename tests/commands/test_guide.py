"""The commands of the guide run, in their order."""

import re
import shutil
import subprocess
from pathlib import Path

from models import heads

from grilly.commands.table import known

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "commands.md").read_text(encoding="utf-8")


def test_the_guide_runs(shell, tmp_path):
    """The cross-encoder that its `rerank` loads by name is a small one in the cache."""
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    place = tmp_path / "hub" / "models--cross-encoder--ms-marco-MiniLM-L6-v2"
    shutil.copytree(heads.build("scores", "bert", tmp_path / "made"), place / "snapshots" / "1")
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("1")
    folder = tmp_path / "work"
    folder.mkdir()
    environment = shell | {"HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub"), "COLUMNS": "100"}
    environment |= {"HOME": str(tmp_path)}
    outputs = []
    for block in blocks:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", block], env=environment, cwd=folder, capture_output=True, text=True
        )
        assert done.returncode == 0, (block, done.stderr)
        outputs.append(done.stdout)
    [shown] = re.findall(r"```text\n(.*?)```", GUIDE, re.DOTALL)
    assert outputs[0] == shown
    assert len(blocks) > 6 and (folder / "rows.npy").exists() and (folder / "minilm-half" / "modules.json").exists()


def test_the_guide_names_every_command():
    rows = re.findall(r"^\| (`.*?) \|", GUIDE, re.MULTILINE)
    named = {word.split()[0] for row in rows for word in re.findall(r"`([^`]*)`", row)}
    assert known()["commands"].keys() - named == {"completion"}
