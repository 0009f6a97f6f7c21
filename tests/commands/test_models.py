"""`grilly check` and `grilly convert`."""

import json
import shutil

import numpy as np
import pytest
from models import heads

import grilly
from grilly import SentenceTransformer
from grilly.__main__ import main

TEXTS = ["A cat sleeps.", "Interest rates rose in March.", "猫"]


def checked(capsys, *arguments: object) -> dict:
    status = main(["check", "--json", "--device", "cpu", *map(str, arguments)])
    found = json.loads(capsys.readouterr().out)
    assert found["loads"] == (status == 0)
    return found


def test_a_folder_that_loads(checkpoint, capsys):
    folder = checkpoint("base")
    assert main(["check", str(folder), "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{folder} loads as SentenceTransformer"
    assert "  result     32 numbers, compared by cosine" in lines and "  reads      48 tokens" in lines


@pytest.mark.parametrize(
    ("task", "name", "kind"),
    [("scores", "bert", "CrossEncoder"), ("vectors", "bert", "MultiVectorEncoder"), ("words", "bert", "SparseEncoder")],
)
def test_the_class_is_found(task, name, kind, tmp_path, capsys):
    folder = heads.build(task, name, tmp_path)
    assert checked(capsys, folder, "--kind", kind)["class"] == kind
    if task != "words":  # of BERT with its head for words, the files say nothing else
        assert checked(capsys, folder)["class"] == kind


def changed(folder, target, name, **keys):
    shutil.copytree(folder, target)
    file = target / name
    file.write_text(json.dumps(json.loads(file.read_text()) | keys))
    return target


def test_a_folder_that_does_not_load_names_file_and_key(checkpoint, tmp_path, capsys):
    base = checkpoint("base")
    found = checked(capsys, changed(base, tmp_path / "type", "config.json", model_type="nothing_like_it"))
    assert "config.json" in found["problem"] and "nothing_like_it" in found["problem"]
    shutil.copytree(base, tmp_path / "weights")
    next((tmp_path / "weights").rglob("model.safetensors")).unlink()
    assert "safetensors" in checked(capsys, tmp_path / "weights")["problem"]
    (tmp_path / "nothing").mkdir()
    assert checked(capsys, tmp_path / "nothing")["error"]
    assert main(["check", str(tmp_path / "nothing")]) == 1
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'nothing'} does not load\n")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8"])
def test_a_converted_folder_has_the_numbers_of_the_type(dtype, checkpoint, tmp_path, capsys):
    base, out = checkpoint("base"), tmp_path / "out"
    assert main(["convert", str(base), str(out), "--dtype", dtype]) == 0
    assert str(out) in capsys.readouterr().out
    with SentenceTransformer(base, device="cpu", dtype=dtype) as model:
        expected = model.encode(TEXTS)
    with SentenceTransformer(out, device="cpu") as model:
        assert model.dtype == dtype
        assert np.array_equal(model.encode(TEXTS), expected)
    sizes = [sum(file.stat().st_size for file in folder.rglob("*.safetensors")) for folder in (base, out)]
    assert sizes[1] < 0.6 * sizes[0] if "16" in dtype else abs(sizes[1] - sizes[0]) < 1000


def test_and_back(checkpoint, tmp_path):
    half, back = tmp_path / "half", tmp_path / "back"
    assert main(["convert", str(checkpoint("base")), str(half), "--dtype", "bfloat16"]) == 0
    assert main(["convert", str(half), str(back), "--dtype", "float32"]) == 0
    with SentenceTransformer(half, device="cpu", dtype="float32") as model:
        expected = model.encode(TEXTS)
    with SentenceTransformer(back, device="cpu") as model:
        assert model.dtype == "float32" and np.array_equal(model.encode(TEXTS), expected)


def test_rounding_is_torchs():
    """Beside the nearest of all bfloat16 numbers, ties to the even one, in float64."""
    from grilly.commands.convert import rounded

    bits = np.arange(1 << 16, dtype=np.uint32) << 16
    all_numbers = bits.view(np.float32)
    finite = np.sort(all_numbers[np.isfinite(all_numbers)].astype(np.float64))
    drawn = np.random.default_rng(0).integers(0, 1 << 32, 20000, dtype=np.uint32).view(np.float32)
    middles = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    for given in (drawn[np.abs(drawn) < finite[-1]], middles[np.abs(middles) < finite[-1]]):
        found = (rounded(given, "bfloat16").astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        place = np.clip(np.searchsorted(finite, given), 1, len(finite) - 1)
        best = np.minimum(np.abs(finite[place] - given), np.abs(finite[place - 1] - given))
        assert (np.abs(found - given) == best).all()
        tied = np.abs(finite[place] - given) == np.abs(finite[place - 1] - given)
        assert (rounded(given, "bfloat16")[tied & (found != 0)] % 2 == 0).all()
    assert np.isnan((rounded(np.float32([np.nan]), "bfloat16").astype(np.uint32) << 16).view(np.float32)).all()


def test_what_convert_refuses(checkpoint, tmp_path, capsys):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.txt").write_text("mine")
    assert main(["convert", str(checkpoint("base")), str(tmp_path / "there"), "--dtype", "float16"]) == 1
    assert "is there already" in capsys.readouterr().err
    assert main(["convert", "no-such-folder/", str(tmp_path / "new"), "--dtype", "float16"]) == 1
    assert not (tmp_path / "new").exists()


def test_the_names_are_classes():
    from grilly.commands.check import CLASSES

    assert all(isinstance(getattr(grilly, name), type) for name in CLASSES)
