"""The Python of the README and of the guides about operations, arrays and layers runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
GUIDES = ROOT / "docs" / "guides"


def guide(name: str) -> str:
    return (GUIDES / f"{name}.md").read_text(encoding="utf-8")


def python(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("name", ["functional", "arrays", "kernels", "nn"])
def test_the_code_of_a_guide_runs(name):
    blocks = python(GUIDES / f"{name}.md")
    assert len(blocks) > 1
    names: dict = {}
    for block in blocks:
        exec(block, names)


def test_the_code_of_the_readme_runs(run, real_model_path, tmp_path, monkeypatch):
    (tmp_path / "shaders").mkdir()
    (glsl,) = re.findall(r"```glsl\n// shaders/attention-output-grouped.glsl\n(.*?)```", guide("shaders"), re.DOTALL)
    (tmp_path / "shaders" / "attention-output-mine.glsl").write_text(glsl)
    monkeypatch.chdir(tmp_path)
    done = run("\n".join(python(ROOT / "README.md")), HF_HUB_OFFLINE="1", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.status == 0, done.errors
    assert "The cat sits on the mat." in done.output
