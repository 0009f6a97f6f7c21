"""Each block of Python on the pages runs alone, as the copy button gives it."""

import json
import re
from pathlib import Path

import pytest
from models import families, heads, hybrid

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: Blocks of these need a library beside grilly: tests/integrations/test_pages.py runs them.
WITH_LIBRARIES = {"tutorials/langchain", *(f"guides/with/{path.stem}" for path in DOCS.glob("guides/with/*.md"))}
#: Blocks of these change what later ones of the process find: each has a process of its own.
OF_THE_PROCESS = {"guides/from-sentence-transformers"}
#: Blocks of these take some seconds: they run with those of all pages, in a process each.
TAKE_LONG = {"tutorials/browser", "tutorials/train"}
#: Blocks of this one need the files of the page: tests/python/test_shader_guide.py writes them.
WITH_FILES = {"guides/shaders"}


def python(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)


def with_prompts(folder: Path) -> Path:
    prompts = {"prompts": {"retrieval.query": "Represent the query: "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    return folder


PAGES = {
    page: python(page)
    for path in sorted(DOCS.rglob("*.md"))
    if (page := str(path.relative_to(DOCS).with_suffix(""))) not in WITH_LIBRARIES and python(page)
}
SCORES = {"cross-encoder/ms-marco-MiniLM-L6-v2": lambda folder: heads.build("scores", "bert", folder)}
VECTORS = {"lightonai/GTE-ModernColBERT-v1": lambda folder: heads.build("vectors", "bert", folder)}
#: Models in place of those that no package has, or that take long.
STAND_INS = {
    "guides/encoding": {
        "jinaai/jina-embeddings-v3": lambda folder: with_prompts(families.build("jina-lora", folder)),
        "google-t5/t5-small": lambda folder: families.build("t5", folder),
    },
    "guides/reranking": SCORES,
    "tutorials/rerank": SCORES,
    "guides/late-interaction": VECTORS,
    "tutorials/late-interaction": VECTORS,
    "guides/sparse": {"naver/splade-v3": lambda folder: heads.build("words", "bert", folder)},
    "guides/hybrid": {"BAAI/bge-m3": hybrid.build},
}


@pytest.fixture
def blocks(request, real_model_path, tiny_model, tmp_path, monkeypatch):
    """Blocks of a page, in an empty folder, with models at hand; not on a software driver, which takes minutes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("ALLOW_CPU_VULKAN", raising=False)
    found = PAGES[request.param]
    stand_ins = {name: build(tmp_path / "model") for name, build in STAND_INS.get(request.param, {}).items()}
    if request.param == "guides/static":
        stand_ins["all-MiniLM-L6-v2"] = tiny_model
    for name, folder in stand_ins.items():
        assert any(name in block for block in found)
        found = [block.replace(name, str(folder)) for block in found]
    return found


def test_the_pages_are_there():
    assert len(PAGES) > 25 and PAGES.keys() >= STAND_INS.keys() | OF_THE_PROCESS | TAKE_LONG | WITH_FILES


@pytest.mark.parametrize("blocks", sorted(PAGES.keys() - OF_THE_PROCESS - TAKE_LONG - WITH_FILES), indirect=True)
def test_each_block_runs_alone(blocks):
    for block in blocks:
        exec(block, {})


@pytest.mark.parametrize("blocks", sorted(PAGES.keys() - WITH_FILES), indirect=True)
def test_each_block_runs_in_a_process_of_its_own(blocks, run):
    for block in blocks:
        done = run(block)
        assert done.status == 0, f"{block}\n{done.errors}"
