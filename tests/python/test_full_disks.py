"""No space left, or no name left, at each moment of writing: files from before stay whole, what is new is whole or
absent, and nothing unfinished is left."""

import ctypes
import json
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import LONG
from train.test_training import TEXT, trained

from grilly import SentenceTransformer, ShaderCompiler, ShaderCompilerConfig, kernels, nn, utils
from grilly.__main__ import main
from grilly.errors import CheckpointError, InvalidArgumentError
from grilly.train import Trainer, read_metrics

PAGE = 4096
#: The folder with which a test fills the disk.
FILL = "fill"


class Disk:
    """A file system of its own, with as much space and as many names as a test leaves."""

    def __init__(self, path: Path, pages: int = 1024, names: int = 256) -> None:
        path.mkdir()
        call = ctypes.CDLL(None, use_errno=True)
        options = f"size={pages * PAGE},nr_inodes={names}".encode()
        if not hasattr(call, "mount") or call.mount(b"tmpfs", os.fsencode(path), b"tmpfs", 0, options):
            pytest.skip(f"no file system can be mounted here: {os.strerror(ctypes.get_errno())}")
        self.path, self._call = path, call

    def leave(self, unit: str, left: int) -> None:
        """Leaves so many free pages, or names."""
        (self.path / FILL).mkdir()
        found = os.statvfs(self.path)
        if unit == "pages":
            with open(self.path / FILL / "pages", "wb") as file:
                os.posix_fallocate(file.fileno(), 0, max(found.f_bavail * found.f_frsize - left * PAGE, 1))
        else:
            for number in range(found.f_favail - left):
                (self.path / FILL / str(number)).touch()

    def give(self) -> None:
        """Gives everything back that `leave` took."""
        shutil.rmtree(self.path / FILL)

    def close(self) -> None:
        self._call.umount2(os.fsencode(self.path), 2)


@pytest.fixture
def disk(tmp_path) -> Iterator[Disk]:
    found = Disk(tmp_path / "disk")
    yield found
    found.close()


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and FILL not in path.relative_to(folder).parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def sweep(
    disk: Disk,
    write: Callable[[Path], object],
    error: type[Exception],
    before: Callable[[Path], object] = lambda folder: None,
    same: Callable[[str, bytes, bytes], bool] = lambda name, found, expected: found == expected,
    stride: int = 1,
) -> int:
    """Writes with ever more space and ever more names left until all can be written; the number of failures."""
    folder, failures = disk.path / "written", 0
    before(folder)
    write(folder)
    whole = files(disk.path)
    shutil.rmtree(folder)
    for unit in ("pages", "names"):
        left = 0
        while True:
            before(folder)
            start = files(disk.path)
            disk.leave(unit, left)
            failed = None
            try:
                write(folder)
            except error as caught:
                failed, failures = caught, failures + 1
            found = files(disk.path)
            for name, content in found.items():
                fits = [expected[name] for expected in (start, whole) if name in expected]
                assert fits and any(same(name, content, one) for one in fits), (unit, left, name, failed)
            # What was there and is replaced by the end stays until then.
            gone = start.keys() - found.keys()
            assert gone <= start.keys() - whole.keys(), (unit, left, gone, failed)
            disk.give()
            if failed is None:
                assert found.keys() == whole.keys()
                break
            text = f"{failed}"
            assert "No space left" in text, text
            # There is space again.
            write(folder)
            assert files(disk.path).keys() == whole.keys(), (unit, left)
            shutil.rmtree(folder)
            left += 1 if left < 3 or LONG else stride
        shutil.rmtree(folder)
    return failures


def test_a_training_run(disk):
    def goes_on(folder):
        trainer = Trainer.resume(TEXT, folder, device="cpu", steps=6)
        list(trainer.run())
        ends.append(trainer.hashes())

    def same(name, found, expected):
        if name.endswith("metrics.jsonl"):
            lines = [[json.loads(line)["step"] for line in content.splitlines()] for content in (found, expected)]
            # Those that the newest checkpoint covers, and perhaps more.
            assert len(read_metrics(disk.path / "written")) == len(lines[0])
            return lines[0] == [*range(1, len(lines[0]) + 1)] and (not found or found.endswith(b"\n"))
        if name.endswith(".json"):
            own, other = (json.loads(content) for content in (found, expected))
            return own["sha256"] == other["sha256"]
        return found == expected

    ends: list = []
    failures = sweep(
        disk, goes_on, CheckpointError, lambda folder: list(trained(folder, steps=3, keep=9).run()), same, stride=5
    )
    assert failures > 10 and all(end == ends[0] for end in ends)


def test_a_new_training_run(disk):
    def same(name, found, expected):
        return name.endswith((".jsonl", ".json")) or found == expected

    def starts(folder):
        # After a failure it resumes, if there is what to resume.
        saved = list(folder.glob("step-*.json")) if folder.exists() else []
        trainer = Trainer.resume(TEXT, folder, device="cpu") if saved else trained(folder, steps=3)
        list(trainer.run())

    assert sweep(disk, starts, CheckpointError, same=same, stride=5) > 6


def test_a_saved_state(disk):
    layer, other = nn.Linear(64, 100), nn.Linear(64, 100)

    def save(layer):
        return lambda folder: (
            folder.mkdir(exist_ok=True),
            utils.save_checkpoint(layer, epoch=3, filepath=folder / "state.npz"),
        )

    def same(name, found, expected):
        # The times in a zip file differ.
        return len(found) == len(expected) and arrays(found) == arrays(expected)

    def arrays(content):
        import io

        with np.load(io.BytesIO(content)) as stored:
            return {name: stored[name].tobytes() for name in stored.files}

    assert sweep(disk, save(layer), CheckpointError, save(other), same) > 6


def test_a_saved_model(disk, checkpoint, tmp_path):
    source = checkpoint("base")
    model = SentenceTransformer(str(source), device="cpu")
    model.max_seq_length = 17

    def earlier(folder):
        shutil.copytree(source, folder)
        (folder / "own.txt").write_text("mine")

    def save(folder):
        model.save_pretrained(folder)

    assert sweep(disk, save, OSError, earlier, stride=9) > 6
    assert sweep(disk, save, OSError, stride=9) > 6


@pytest.mark.parametrize("ending", [".npy", ".jsonl", ".sqlite", None])
def test_embedded_texts_and_an_index(disk, checkpoint, tmp_path, capsys, ending):
    """What is there after a failure is gone on with; the end is that of a run without one. No ending: search."""
    folder, out = tmp_path / "texts", disk.path / f"out{ending or ''}"
    folder.mkdir()
    (folder / "texts.txt").write_text("".join(f"Text number {number}.\n\n" for number in range(1000)))
    model = ["--model", str(checkpoint("base")), "--device", "cpu"]
    command = ["embed", str(folder / "texts.txt"), "-o", str(out), "--resume", *model]
    if ending is None:
        command = ["search", "number 7", str(folder), "--index", str(out), "--json", *model]

    def run() -> tuple[int, str, str]:
        status = main(command)
        captured = capsys.readouterr()
        # A file without a row is removed after a failure.
        rows = out.read_bytes() if ending in (".npy", ".jsonl") and out.exists() else b""
        if ending == ".sqlite" and status == 0:
            rows = b"".join(row for (row,) in sqlite3.connect(out).execute("SELECT embedding FROM embeddings"))
        return status, captured.out or rows.hex(), captured.err

    expected = run()
    assert expected[0] == 0
    failures = 0
    for left in (0, 1, 2, 5, 10, 20, 40, 60):
        shutil.rmtree(out) if out.is_dir() else out.unlink(missing_ok=True)
        disk.leave("pages", left)
        status, _, problem = run()
        failures += status
        assert status == 0 or any(words in problem for words in ("No space left", "disk is full", "disk I/O")), problem
        disk.give()
        assert run()[:2] == expected[:2], left
    assert failures > 3


def test_an_exported_model(disk, checkpoint):
    model = SentenceTransformer(str(checkpoint("base")), device="cpu")

    def export(folder):
        model.export("wgsl", folder, overwrite=True)

    def earlier(folder):
        (folder / "shaders").mkdir(parents=True)
        for name in ("plan.json", "weights.bin", "grilly.js", "shaders/layer-norm.wgsl", "notes.txt"):
            (folder / name).write_text("earlier")

    # An export takes a second.
    assert sweep(disk, export, InvalidArgumentError, earlier, stride=70) > 4
    folder = disk.path / "whole"
    earlier(folder)
    disk.leave("pages", 3)
    with pytest.raises(InvalidArgumentError, match="cannot be written: No space left"):
        export(folder)
    # None of the files is replaced unless all can be.
    assert {content for content in files(folder).values()} == {b"earlier"}


def test_an_exported_kernel(disk):
    compiled = kernels.get("bias_gelu").compile("spirv")

    def write(folder):
        compiled.write(folder / "gelu.spv", overwrite=True)

    def earlier(folder):
        folder.mkdir()
        (folder / "gelu.spv").write_bytes(b"earlier")

    assert sweep(disk, write, InvalidArgumentError, earlier) > 3


def test_a_link_is_replaced_and_not_followed(tmp_path):
    compiled = kernels.get("bias_gelu").compile("spirv")
    target, link = tmp_path / "deep" / "target.spv", tmp_path / "gelu.spv"
    target.parent.mkdir()
    target.write_bytes(b"earlier")
    link.symlink_to(target)
    compiled.write(link, overwrite=True)
    assert not link.is_symlink() and link.read_bytes() == next(iter(compiled.code.values()))
    assert target.read_bytes() == b"earlier" and sorted(os.listdir(target.parent)) == ["target.spv"]


SHADER = """#version 460
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer X { float x[]; };
void main() { for (int i = 0; i < NUMBER; i++) x[gl_GlobalInvocationID.x] += sin(x[i]) * float(i); }
"""


def test_the_cache_of_shaders(disk, tmp_path, caplog):
    (tmp_path / "f.glsl").write_text(SHADER)

    def compiled(number):
        config = ShaderCompilerConfig(tmp_path, cache_directory=disk.path / "cache", defines={"NUMBER": number})
        compiler = ShaderCompiler(config)
        return compiler.get_compute_function("f").spirv, compiler.compilations

    compiled(1)
    kept = files(disk.path)
    for number, (unit, left) in enumerate([("pages", 0), ("pages", 1), ("names", 0)], start=2):
        disk.leave(unit, left)
        caplog.clear()
        with caplog.at_level(logging.DEBUG, "grilly"):
            module, compilations = compiled(number)
        assert compilations == 1
        told = [record for record in caplog.records if "not written" in record.getMessage()]
        if files(disk.path) == kept:
            assert [record.levelno for record in told] == [logging.DEBUG] and "No space left" in told[0].getMessage()
        else:
            assert not told and (unit, left) == ("pages", 1)
        kept = files(disk.path)
        assert not any(name.endswith((".tmp", ".unfinished")) for name in kept)
        disk.give()
        assert compiled(number)[0] == module and compiled(number)[1] == 0
        kept = files(disk.path)


@pytest.mark.vulkan
def test_the_cache_of_pipelines(disk, vulkan):
    code = """
import logging, sys
logging.basicConfig(level=logging.DEBUG)
import grilly
from grilly import _core, functional
print(functional.softmax([[0.0, 0.0]]).tolist())
_core.engine("vulkan").synchronize()
"""
    environment = os.environ | {"XDG_CACHE_HOME": str(disk.path), "GRILLY_DEBUG": "0"}
    run = [sys.executable, "-c", code]
    disk.leave("pages", 0)
    done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout == "[[0.5, 0.5]]\n", done.stderr
    told = [line for line in done.stderr.splitlines() if "not written" in line]
    assert len(told) == 1 and told[0].startswith("DEBUG:grilly:pipeline cache") and "No space left" in told[0], told
    assert not [name for name in files(disk.path) if name.startswith("grilly/")]
    disk.give()
    done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "not written" not in done.stderr
    assert [name for name in files(disk.path) if name.startswith("grilly/pipelines/")]
