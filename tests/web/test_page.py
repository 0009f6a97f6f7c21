"""The page of examples/webgpu in Chromium: vectors beside Python's, kernels, search, a browser without WebGPU."""

import os
from pathlib import Path

import numpy as np
import pytest
from browser import Browser
from web.conftest import TEXT

import grilly

EMBED = "const { encoder } = await page; return (await encoder.embed(args)).map((vector) => [...vector]);"
SEARCH = """
document.getElementById("hits").replaceChildren();
document.getElementById("query").value = args;
document.getElementById("search").requestSubmit();
while (document.getElementById("hits").children.length < 5) await new Promise((done) => setTimeout(done, 100));
return document.getElementById("hits").innerText;
"""
IDS = "const { encoder } = await page; return args.map((text) => encoder.tokenize(text).ids);"


@pytest.fixture(scope="module")
def page(site):
    opened = Browser(site)
    opened.open()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def fifty(texts) -> list[str]:
    """Of the 200 texts every fourth: many scripts, empty ones, and longer ones than the limit."""
    return texts[::4]


def test_vectors_are_python_s(page, fifty, real_model_path):
    with grilly.SentenceTransformer(real_model_path, device="cpu") as model:
        expected = model.encode(fifty)
        ids = [model._core.tokenize([text])[0] for text in fifty]
    assert page.run(IDS, fifty) == ids
    found = np.array(page.run(EMBED, fifty))
    assert found.shape == expected.shape
    difference = np.abs(found - expected).max()
    print(f"largest difference from Python's: {difference:.2e}")
    assert difference <= 1e-5  # NaN fails


def test_a_vector_does_not_depend_on_its_batch(page, fifty):
    together = page.run(EMBED, fifty[:3])
    assert [page.run(EMBED, [text])[0] for text in fifty[:3]] == together


def test_columns_are_cut_as_python_does(page, fifty, real_model_path):
    with grilly.SentenceTransformer(real_model_path, device="cpu", truncate_dim=100) as model:
        expected = model.encode(fifty[:3])
    by_call = EMBED.replace("embed(args)", "embed(args, { truncateDim: 100 })")
    by_model = f"""
    const {{ plan }} = (await page).encoder;
    plan.texts.truncate_dim = 100;
    try {{ {EMBED} }} finally {{ plan.texts.truncate_dim = null; }}
    """
    for body in (by_call, by_model):
        found = np.array(page.run(body, fifty[:3]))
        assert found.shape == expected.shape == (3, 100)
        assert np.abs(found - expected).max() <= 1e-5
    with pytest.raises(RuntimeError, match="truncateDim is 0, expected a positive integer"):
        page.run("return (await page).encoder.embed(args, { truncateDim: 0 })", fifty[:1])


def test_kernels_agree_with_the_cpu(page):
    kernels = page.run("return (await page).kernels")
    assert [row["name"] for row in kernels] and {row["name"] for row in kernels} == set(grilly.kernels.names())
    # Sums of 384 products, as tests/cases/comparison.py bounds them.
    bound = 8 * (2 * 384 + 4) ** 0.5 * 2.0**-24
    for row in kernels:
        assert row["difference"] < bound and row["gpu"] > 0 and row["cpu"] > 0, row
    assert page.run("return (await page).difference") < 1e-6


def test_search_finds_the_meaning(page):
    hits = page.run("return (await page).search(args, 2)", "Where is the animal lying?")
    assert {hit["text"] for hit in hits} == set(TEXT.splitlines()[:2])
    shown = page.run(SEARCH, "monetary policy")
    assert set(TEXT.splitlines()[2:4]) <= {line.split(" 0.")[0].split(" ·")[0].strip() for line in shown.splitlines()}
    if folder := os.environ.get("GRILLY_SCREENSHOTS"):
        Path(folder, "webgpu.png").write_bytes(page.screenshot())


def test_without_webgpu_the_page_says_so(site):
    opened = Browser(site, ("--disable-features=WebGPU,WebGPUService", "--disable-gpu"))
    try:
        opened.open()
        status = opened.run("await page.catch(() => {}); return document.getElementById('status').innerText")
        assert "WebGPU" in status, status
        assert opened.run("return document.getElementById('status').className") == "failed"
        if folder := os.environ.get("GRILLY_SCREENSHOTS"):
            Path(folder, "webgpu-without.png").write_bytes(opened.screenshot())
    finally:
        opened.close()
