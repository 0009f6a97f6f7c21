"""The Python of the README and of the guides about operations, arrays and layers runs."""

import re
import runpy
from pathlib import Path

import pytest
from models import families, heads, hybrid

from grilly import VulkanSentenceTransformer, _core
from grilly.__main__ import main

ROOT = Path(__file__).parent.parent.parent
GUIDES = ROOT / "docs" / "guides"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def guide(name: str) -> str:
    return (GUIDES / f"{name}.md").read_text(encoding="utf-8")


def python(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(
    "name", ["functional", "arrays", "kernels", "learning-rules", "nn", "quantization", "search", "training"]
)
def test_the_code_of_a_guide_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = python(GUIDES / f"{name}.md")
    assert len(blocks) > 1
    names: dict = {}
    for block in blocks:
        exec(block, names)


@pytest.fixture
def no_software_driver(monkeypatch):
    """Models run on a GPU or on the CPU: a software driver takes minutes."""
    monkeypatch.delenv("ALLOW_CPU_VULKAN", raising=False)


def test_the_code_for_sentence_transformers_users_runs(run, real_model_path):
    blocks = python(GUIDES / "from-sentence-transformers.md")
    assert len(blocks) > 2
    done = run("\n".join(blocks), HF_HUB_OFFLINE="1")
    assert done.status == 0, done.errors
    assert "push_to_hub is left out: save_pretrained(folder) writes the files" in done.output


def test_the_code_for_decoders_runs(tmp_path, capsys, no_software_driver):
    section = guide("encoding").partition("## States of a decoder")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    folder = families.build("t5", tmp_path)
    exec(block.replace("google-t5/t5-small", str(folder)), {})
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        lengths = [len(model.tokenizer.encode(text)) for text in ("Das Haus ist klein.", "Gute Nacht.")]
    assert capsys.readouterr().out == f"{[(length, 36) for length in lengths]}\n"


def test_the_code_for_streams_of_texts_runs(real_model_path, tmp_path, monkeypatch, capsys, no_software_driver):
    monkeypatch.chdir(tmp_path)
    section = guide("encoding").partition("## More texts than memory holds")[2].partition("\n## ")[0]
    parts, to_file = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    exec(parts, {})
    assert capsys.readouterr().out == "(3, 384)\n"
    names: dict = {}
    exec(to_file, names)
    assert (names["rows"] == names["model"].encode([f"Text number {number}." for number in range(100)])).all()


def test_the_code_for_long_texts_runs(real_model_path, no_software_driver):
    section = guide("encoding").partition("## Long texts")[2].partition("\n## ")[0]
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        exec(block, names)
    assert names["embeddings"].shape == (1, 384) and names["rows"].shape == (2, 384)


def test_the_code_for_the_tokenizer_runs(real_model_path, no_software_driver):
    section = guide("encoding").partition("## The tokenizer")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names: dict = {}
    exec(block, names)
    assert names["words"][0] == names["words"][-1] == "" and "".join(names["words"]) in names["text"].replace(" ", "")


def test_the_code_for_reranking_runs(run, tmp_path):
    folder = heads.build("scores", "bert", tmp_path)
    blocks = python(GUIDES / "reranking.md")
    code = "\n".join(blocks).replace("cross-encoder/ms-marco-MiniLM-L6-v2", str(folder))
    assert len(blocks) == 3 and str(folder) in code
    done = run(code)
    assert done.status == 0, done.errors
    assert len(done.output.splitlines()) == 2


def test_the_code_for_sparse_embeddings_runs(run, tmp_path):
    folder = heads.build("words", "bert", tmp_path)
    blocks = python(GUIDES / "sparse.md")
    code = "\n".join(blocks).replace("naver/splade-v3", str(folder))
    assert len(blocks) == 2 and str(folder) in code
    done = run(code)
    assert done.status == 0, done.errors
    assert "'sparsity_ratio'" in done.output


def test_the_code_for_late_interaction_runs(run, tmp_path):
    folder = heads.build("vectors", "bert-pylate", tmp_path)
    blocks = python(GUIDES / "late-interaction.md")
    code = "".join(blocks).replace("lightonai/GTE-ModernColBERT-v1", str(folder))
    assert str(folder) in code
    done = run(code + "print(scores.shape, len(small), [hit['text'] for hit in hits])")
    assert done.status == 0, done.errors
    assert done.output.startswith("(1, 2) 2 ['")


def test_the_code_for_hybrid_results_runs(run, tmp_path):
    folder = hybrid.build(tmp_path / "model")
    (block,) = python(GUIDES / "hybrid.md")
    code = block.replace("BAAI/bge-m3", str(folder))
    assert str(folder) in code
    done = run(code)
    assert done.status == 0, done.errors
    assert done.output.startswith("(2, 36)\n{")


def test_the_code_for_static_embeddings_runs(run, tiny_model, tmp_path):
    (block,) = python(GUIDES / "static.md")
    code = block.replace("all-MiniLM-L6-v2", str(tiny_model)).replace("static-minilm", str(tmp_path / "static"))
    assert str(tiny_model) in code and str(tmp_path / "static") in code
    done = run(code)
    assert done.status == 0, done.errors
    assert done.output == "(1, 32)\n"


def test_the_guide_to_models_lists_the_families_that_load():
    [line] = re.findall(r"^Families that load \(`model_type` in config.json\): (.*)\.$", guide("models"), re.MULTILINE)
    assert line == ", ".join(f"`{name}`" for name, _, _ in _core.model_rows())


def test_the_readme_says_what_pip_installs_before_anything_else():
    first = README.partition("\n## ")[0]
    assert "**`pip install grilly` still brings another package**" in first
    assert "+from grilly import SentenceTransformer" in first


def test_the_figures_are_what_their_script_draws():
    figures = runpy.run_path(str(ROOT / "scripts" / "concept_figures.py"))["FIGURES"]
    shown = re.findall(r"\(../images/([\w-]+)\.svg\)", guide("concepts"))
    assert shown == list(figures)
    for name, figure in figures.items():
        assert (ROOT / "docs" / "images" / f"{name}.svg").read_text(encoding="utf-8") == figure(), name


def test_the_chart_of_the_readme_shows_the_measurements():
    script = runpy.run_path(str(ROOT / "scripts" / "speed_chart.py"))
    assert (ROOT / "docs" / "images" / "speed.svg").read_text(encoding="utf-8") == script["chart"]()
    for _, ours, theirs in script["bars"]():
        assert f"| {script['speed'](ours)} | {script['speed'](theirs)} |" in README


@pytest.mark.parametrize(("name", "kept"), [("reranking", lambda row: True), ("sparse", lambda row: row[1])])
def test_the_guides_list_the_families_with_heads(name, kept):
    text = guide(name).partition("## Which models load")[2].partition("config.json):")[2]
    listed = re.findall(r"`([a-z0-9_-]+)`", text.partition(". They")[0].partition("; bare")[0])
    assert listed == [row[0] for row in _core.head_rows() if kept(row)]


def test_the_guide_to_models_lists_the_modules_that_load():
    [modules] = re.findall(r"^### Modules\n\n(.*?)\n\n", guide("models"), re.MULTILINE | re.DOTALL)
    for module, choices in _core.module_rows():
        assert module in modules
        assert module != "Pooling" or all(mode.removesuffix("_tokens") in modules for mode in choices)


def test_the_command_prints_the_same_table(capsys):
    assert main(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    first, second = lines.index(""), len(lines)
    assert first == 1 + len(_core.model_rows()) and second == first + 2 + len(_core.module_rows())
    assert "bert: BertModel, BertFor...; all-MiniLM" in lines[2]
    assert "Pooling: cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken" in lines
    assert "Dense: Tanh, Identity, ReLU, GELU, SiLU, Sigmoid" in lines and "Normalize" in lines


def test_the_code_of_the_readme_runs(run, real_model_path):
    done = run("\n".join(python(ROOT / "README.md")), HF_HUB_OFFLINE="1")
    assert done.status == 0, done.errors
    assert done.output.startswith("The cat sits on the mat.")


def test_the_code_of_the_first_readme_runs(run, real_model_path, tmp_path, monkeypatch):
    (tmp_path / "shaders").mkdir()
    (glsl,) = re.findall(r"```glsl\n// shaders/attention-output-grouped.glsl\n(.*?)```", guide("shaders"), re.DOTALL)
    (tmp_path / "shaders" / "attention-output-mine.glsl").write_text(glsl)
    monkeypatch.chdir(tmp_path)
    blocks = python(ROOT / "tests" / "fixtures" / "first_readme.md")
    assert len(blocks) == 5
    done = run("\n".join(blocks), HF_HUB_OFFLINE="1", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.status == 0, done.errors
    assert "The cat sits on the mat." in done.output
