"""`grilly rerank`, `similarity`, `cluster` and `dedupe`, beside float64 and the functions of the package."""

import json

import numpy as np
import pytest
from models import heads

from grilly import CrossEncoder, SentenceTransformer
from grilly.__main__ import main
from grilly.commands.dedupe import originals

from . import TEXTS


def printed(capsys, *arguments: object) -> list[str]:
    assert main([str(each) for each in arguments]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def cosines(real_model_path):
    with SentenceTransformer(real_model_path, device="cpu") as model:
        rows = model.encode(TEXTS).astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows @ rows.T


def test_similarity(real, cosines, capsys):
    assert float(printed(capsys, "similarity", *TEXTS[:2], *real)[0]) == pytest.approx(cosines[0, 1], abs=1e-4)
    lines = printed(capsys, "similarity", *TEXTS, *real)
    assert [line.split("  ")[1] for line in lines] == TEXTS[1:]
    found = [json.loads(line) for line in printed(capsys, "similarity", *TEXTS, *real, "--json")]
    assert [row["score"] for row in found] == pytest.approx(cosines[0, 1:].tolist(), abs=1e-5)
    assert found[0] | {"score": 0} == {"score": 0, "first": TEXTS[0], "second": TEXTS[1]}
    assert main(["similarity", "one"]) == 1 and "two texts" in capsys.readouterr().err


def test_clusters(texts, real, capsys):
    lines = printed(capsys, "cluster", texts, *real)
    assert lines[0] == "cluster 1, 3 texts" and lines[-1] == "1 cluster; 1 of 4 texts are in none"
    assert {line.split()[0] for line in lines[1:4]} == {"1", "2", "4"}
    [group] = [json.loads(line) for line in printed(capsys, "cluster", texts, "--threshold", "0.9", "--json", *real)]
    assert group == {"cluster": 1, "texts": [{"line": 1, "text": TEXTS[0]}, {"line": 4, "text": TEXTS[3]}]}
    assert printed(capsys, "cluster", texts, "--min-size", "4", *real) == ["0 clusters; 4 of 4 texts are in none"]


def test_duplicates(texts, real, cosines, capsys):
    assert cosines[0, 3] > 0.95
    assert printed(capsys, "dedupe", texts, *real) == TEXTS[:3]
    [line] = printed(capsys, "dedupe", texts, "--duplicates", *real)
    assert line == f"4 of 1  {cosines[0, 3]:.3f}  {TEXTS[3]}"
    [row] = [json.loads(line) for line in printed(capsys, "dedupe", texts, "--duplicates", "--json", *real)]
    assert row["score"] == pytest.approx(cosines[0, 3], abs=1e-5) and row["duplicate_of"] == 1
    assert main(["dedupe", str(texts), "--threshold", "2"]) == 1
    assert "expected a cosine" in capsys.readouterr().err


def test_what_is_kept_is_what_a_loop_keeps():
    drawn = np.random.default_rng(0)
    rows = drawn.standard_normal((3000, 3)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    products = rows.astype(np.float64) @ rows.T.astype(np.float64)
    assert (np.abs(products - 0.99) > 1e-7).all()  # no pair is between
    kept: list[int] = []
    for place, (first, score) in enumerate(originals(rows, 0.99)):
        near = max(kept, key=lambda other, place=place: products[place, other], default=None)
        repeats = near is not None and products[place, near] >= 0.99
        assert first == (near if repeats else place)
        assert score == pytest.approx(products[place, near] if repeats else 1.0, abs=1e-6)
        kept += [] if repeats else [place]
    assert 100 < len(kept) < 1000


@pytest.fixture
def ranker(tmp_path):
    return ["--model", str(heads.build("scores", "bert", tmp_path)), "--device", "cpu"]


def test_reranking(texts, ranker, capsys):
    with CrossEncoder(ranker[1], device="cpu") as model:
        expected = model.rank("a cat", TEXTS)
    found = [json.loads(line) for line in printed(capsys, "rerank", "a cat", texts, "--json", *ranker)]
    assert [row["line"] - 1 for row in found] == [row["corpus_id"] for row in expected]
    assert [row["score"] for row in found] == pytest.approx([float(row["score"]) for row in expected], abs=1e-6)
    lines = printed(capsys, "rerank", "a cat", texts, "--top-k", "2", *ranker)
    assert lines == [f"{row['line']}  {row['score']:.3f}  {row['text']}" for row in found[:2]]


def test_reranking_reads_what_search_prints(texts, small, ranker, grilly):
    (texts.parent / "folder").mkdir()
    texts = texts.rename(texts.parent.joinpath("folder", "texts.txt"))
    searched = grilly("search", "a cat", texts.parent, "--json", *small).stdout
    done = grilly("rerank", "a cat", *ranker, stdin=searched)
    assert done.returncode == 0 and done.stdout.startswith(f"{texts}:1  ")
    row = json.loads(grilly("rerank", "a cat", "--json", *ranker, stdin=searched).stdout.splitlines()[0])
    assert row["path"] == str(texts) and row["score"] != json.loads(searched.splitlines()[0])["score"]


@pytest.mark.parametrize("name", ["cluster", "dedupe", "rerank x"])
def test_no_texts_and_no_file(name, tmp_path, capsys):
    (tmp_path / "empty").write_text("\n\n")
    assert main([*name.split(), str(tmp_path / "none")]) == 1
    assert "none" in capsys.readouterr().err
    assert main([*name.split(), str(tmp_path / "empty")]) == 0
    assert capsys.readouterr().out in ("", "0 clusters; 0 of 0 texts are in none\n")
