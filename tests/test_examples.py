"""The notebooks in examples/ run from start to end, on both backends; those that train not on a software driver."""

import re
from pathlib import Path

import nbclient
import nbformat
import pytest
from conftest import is_software

NOTEBOOKS = sorted((Path(__file__).parent.parent / "examples").glob("*.ipynb"))
SHOWN = {
    "embeddings": "384 numbers a text",
    "search": "passages in the index",
    "clusters": "32 texts in rows of 384 numbers",
    "late_interaction": "6 tokens of the query",
    "training": "3,323,392 parameters",
    "quantization": "100 texts",
}
#: Of what is drawn as HTML: the layers of a plan, the tooltip of a dot.
HTML = {"embeddings": "× 6</text>", "clusters": "<title>Where is my parcel?</title>"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, device, real_model_path, monkeypatch, tmp_path):
    if path.stem != "embeddings" and is_software(device):
        pytest.skip("a software driver takes minutes")
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.delenv("GRILLY_DEBUG", raising=False)
    if device == "cpu":
        monkeypatch.delenv("ALLOW_CPU_VULKAN", raising=False)
        monkeypatch.setenv("VK_DRIVER_FILES", "/nonexistent.json")
        monkeypatch.setenv("VK_ICD_FILENAMES", "/nonexistent.json")
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "commit notebooks without outputs"
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = "".join(output.get("text", "") for output in outputs)
    assert re.search(f"{device}: .*{SHOWN[path.stem]}", shown)
    assert any("image/png" in output.get("data", {}) for output in outputs), "the picture was not drawn"
    assert "100%" in str(outputs), "the progress bar was not shown"
    pages = "".join(output["data"].get("text/html", "") for output in outputs if "data" in output)
    assert HTML.get(path.stem, "") in pages
