"""The page of docs/tutorials/browser.md in Chromium: its hits beside Python's."""

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from browser import Browser
from web.conftest import EXAMPLE, ROOT, need_web

TOKENIZER = EXAMPLE / "node_modules" / "@huggingface" / "tokenizers" / "dist" / "tokenizers.min.mjs"
SUBMIT = """
await search;
document.getElementById("query").value = args;
document.getElementById("form").requestSubmit();
while (document.getElementById("hits").children.length < 3) await new Promise((done) => setTimeout(done, 100));
return document.getElementById("hits").innerText;
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory, real_model_path):
    """The folder that the tutorial makes, and the variables of its Python."""
    need_web()
    text = (ROOT / "docs" / "tutorials" / "browser.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (html,) = re.findall(r"^```html\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    folder, back, names = tmp_path_factory.mktemp("tutorial"), Path.cwd(), {}
    os.chdir(folder)
    try:
        exec(code, names)
    finally:
        os.chdir(back)
    (folder / "site" / "index.html").write_text(html, encoding="utf-8")
    shutil.copy(TOKENIZER, folder / "site" / "tokenizers.mjs")
    return folder / "site", names


def test_the_hits_are_python_s(made):
    site, names = made
    opened = Browser(site)
    try:
        opened.open()
        for query in ("when is a variable global?", "how do I leave a loop early"):
            found = opened.run("return (await search)(args, 5)", query)
            scores = names["rows"] @ names["model"].encode_query(query)
            best = np.argsort(-scores)[:5]
            assert [hit["text"] for hit in found] == [names["passages"][place]["text"] for place in best]
            assert np.abs(np.array([hit["score"] for hit in found]) - scores[best]).max() < 1e-5
        assert found[0]["text"] in opened.run(SUBMIT, query)
        if folder := os.environ.get("GRILLY_SCREENSHOTS"):
            Path(folder, "tutorial.png").write_bytes(opened.screenshot())
    finally:
        opened.close()
