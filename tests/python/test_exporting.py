"""Exported models: their plan on wgpu-native beside `encode`, what the files say, what is refused."""

import json
import shutil
from pathlib import Path

import launch_webgpu
import numpy as np
import pytest
from conftest import LONG, need_vulkan
from models import families

import grilly
from grilly import SentenceTransformer, ShaderCompiler, ShaderCompilerConfig, errors
from grilly.backend import shader_registry

ROOT = Path(__file__).parent.parent.parent
TEXTS = ["the cat", "", "a dog and a child and the world", "way of life " * 20]
#: Positions after padding, and rotary positions with gates; `make test-long` runs every family.
FAMILIES = [name for name in families.table() if name in ("roberta", "modernbert") or LONG]


def size(axis, counts: dict[str, int]) -> int:
    return counts.get(axis, axis)


def groups(extent, counts: dict[str, int]) -> int:
    """Workgroups along an axis, by the formulas that `Model::export` documents."""
    if isinstance(extent, int):
        return extent
    if "text_tiles" in extent:
        return counts["T"] // extent["text_tiles"] + counts["B"]
    rows = extent["each"] * size(extent["rows"], counts)
    return 0 if rows == 0 else -(-(rows + extent["more"]) // extent["per"])


def kernel_of(plan: dict, counts: dict[str, int]) -> dict:
    """The interface of a plan for one batch, as that of a kernel whose last operands are the constants."""
    buffers, weights = [], len(plan["inputs"])
    for row in plan["buffers"]:
        row = dict(row)
        if row["kind"] == "counts":
            row["words"] = [counts["T"], counts["B"], 0, 0, 0, 0, 0, 0]
        elif row["kind"] == "weight":
            row |= {"kind": "operand", "place": weights}
            weights += 1
        else:
            row["bytes"] = -(-size(row["rows"], counts) * row["row_bytes"] // 4) * 4
            row["shape"] = [size(axis, counts) for axis in row.get("shape", [])]
        buffers.append(row)
    dispatches = []
    for row in plan["dispatches"]:
        bindings = [one | {"bytes": one["bytes"] or buffers[one["buffer"]]["bytes"]} for one in row["bindings"]]
        grid = [groups(extent, counts) for extent in row["grid"]]
        dispatches += [row | {"bindings": bindings, "grid": grid}] if all(grid) else []
    return plan | {"buffers": buffers, "dispatches": dispatches}


def positions(rule: dict, ids: list[int]) -> list[int]:
    if rule["positions"] == "counted":
        return list(range(len(ids)))
    if rule["positions"] == "by_length":
        return [place + (rule["most"] if len(ids) > rule["most"] else 0) for place in range(len(ids))]
    is_text = np.array(ids) != rule["pad"]
    return (np.cumsum(is_text) * is_text + rule["pad"]).tolist()


def run(folder: Path, ids: list[list[int]], segments: list[list[int]]) -> np.ndarray:
    """The texts' vectors by the files alone, on wgpu-native."""
    plan = json.loads((folder / "plan.json").read_text())
    contents = {
        "words": [one for text in ids for one in text],
        "segments": [one for text in segments for one in text],
        "offsets": np.cumsum([0, *map(len, ids)]),
        "first_pooled": [min(plan["texts"]["unpooled"], len(text)) for text in ids],
    }
    operands = [
        np.array(
            contents[rule] if isinstance(rule, str) else [p for text in ids for p in positions(rule, text)], np.uint32
        )
        for rule in plan["inputs"]
    ]
    weights = (folder / plan["weights"]).read_bytes()
    stored = [row for row in plan["buffers"] if row["kind"] == "weight"]
    operands += [np.frombuffer(weights, np.uint8, row["bytes"], row["offset"]) for row in stored]
    interface = kernel_of(plan, {"T": sum(map(len, ids)), "B": len(ids), "B+1": len(ids) + 1})
    code = {row["shader"]: (folder / row["file"]).read_text() for row in plan["dispatches"]}
    results = launch_webgpu.run(interface, code, operands)
    return np.hstack([results[output["place"]] for output in plan["outputs"]])


def agree(folder: Path, model: SentenceTransformer) -> float:
    """The largest difference between the files' vectors and Python's, of vectors of length one."""
    prompt = "" if model.default_prompt_name is None else model.prompts[model.default_prompt_name]
    ids, segments = model._core.tokenize_with_segments([prompt + text for text in TEXTS])
    expected = model.encode(TEXTS)
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    return float(np.abs((run(folder, ids, segments) - expected) / np.maximum(lengths, 1e-12)).max())


@pytest.mark.vulkan
@pytest.mark.parametrize("name", ["prompt_default", *FAMILIES])
def test_the_files_alone_give_the_vectors(checkpoint, tmp_path, name):
    need_vulkan()
    source = checkpoint(name) if name == "prompt_default" else families.build(name, tmp_path / "source")
    with SentenceTransformer(source, device="cpu", model_kwargs={"dtype": "float32"}) as model:
        model.export("wgsl", tmp_path / "files")
        difference = agree(tmp_path / "files", model)
    assert difference <= 1e-5, difference  # NaN fails


@pytest.mark.vulkan
def test_the_comparison_fails_for_a_plan_that_is_wrong(tiny_model, tmp_path):
    need_vulkan()
    with SentenceTransformer(tiny_model, device="cpu") as model:
        model.export("wgsl", tmp_path)
        assert agree(tmp_path, model) <= 1e-5
        plan = json.loads((tmp_path / "plan.json").read_text())
        (row,) = [row for row in plan["dispatches"] if row["step"] == "layer 0 attention"]
        plan["dispatches"].remove(row)
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        assert not agree(tmp_path, model) <= 1e-5


def test_files_are_complete(tiny_model, tmp_path):
    with SentenceTransformer(tiny_model, device="cpu") as model:
        files = model.export("wgsl", tmp_path / "a" / "b")
    assert sorted(files) == sorted(path for path in (tmp_path / "a" / "b").rglob("*") if path.is_file())
    runtime = (tmp_path / "a" / "b" / "grilly.js").read_text()
    assert len(runtime.splitlines()) < 300 and "export class Encoder" in runtime
    plan = json.loads((tmp_path / "a" / "b" / "plan.json").read_text())
    for row in plan["dispatches"]:
        storage = [one for one in row["bindings"] if one["name"] != "parameters"]
        assert len(storage) <= 8 and np.prod(row["workgroup_size"]) <= 256 and row["workgroup_memory"] <= 16384
        written = {one["buffer"] for one in storage if one["access"] == "read_write"}
        assert not written & {one["buffer"] for one in storage if one["access"] == "read"}
    last = [row for row in plan["buffers"] if row["kind"] == "weight"][-1]
    assert (tmp_path / "a" / "b" / "weights.bin").stat().st_size == last["offset"] + last["bytes"]
    assert plan["limits"] == [] and plan["texts"]["truncate_dim"] is None


def test_columns_that_are_kept_are_in_the_plan(tiny_model, tmp_path):
    with SentenceTransformer(tiny_model, device="cpu", truncate_dim=7) as model:
        model.export("wgsl", tmp_path)
    assert json.loads((tmp_path / "plan.json").read_text())["texts"]["truncate_dim"] == 7


def test_float16_is_written_as_float32(tiny_model, tmp_path):
    with SentenceTransformer(tiny_model, device="cpu", model_kwargs={"dtype": "float16"}) as model:
        model.export("wgsl", tmp_path)
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert {row["dtype"] for row in plan["buffers"] if row["kind"] == "weight"} == {"float32"}


@pytest.mark.parametrize(
    "target, words",
    [
        ("cubin", 'target is "cubin", expected one of'),
        ("ptx", "models are written in"),
        ("msl", 'target is "msl": models are written in "wgsl" alone'),
    ],
)
def test_other_targets_are_refused(tiny_model, tmp_path, target, words):
    with SentenceTransformer(tiny_model, device="cpu") as model:
        with pytest.raises(errors.InvalidArgumentError, match=words):
            model.export(target, tmp_path)
        with pytest.raises(errors.InvalidTypeError, match="target"):
            model.export(None, tmp_path)


def test_a_folder_that_cannot_be_written_is_named(tiny_model):
    with SentenceTransformer(tiny_model, device="cpu") as model:
        with pytest.raises(
            errors.InvalidArgumentError, match="/proc/none/.*cannot be written.*name a file in a folder"
        ):
            model.export("wgsl", "/proc/none/site")


def test_a_model_by_length_is_refused(tmp_path):
    """A user's shader for a part of attention makes plans for each length."""
    source = (ROOT / "shaders" / "attention" / "attention-output.glsl").read_text()
    tile = (ROOT / "shaders" / "include" / "attention-output-tile.glsl").read_text()
    extension = "#version 460\n#extension GL_GOOGLE_include_directive : require\n"
    text = source.replace('#include "attention-output-tile.glsl"', tile).replace("#version 460\n", extension)
    (tmp_path / "mine.glsl").write_text(text)
    compiler = ShaderCompiler(ShaderCompilerConfig(tmp_path, cache_directory=tmp_path / "cache"))
    shader_registry.register_architecture_shader("attention-output", "bert", "mine", compiler=compiler)
    try:
        with SentenceTransformer(families.FIXTURES / "tiny-bert", device="cpu") as model:
            with pytest.raises(errors.UnsupportedError, match="bert cannot be exported: .* one length"):
                model.export("wgsl", tmp_path / "files")
            assert not (tmp_path / "files").exists()
    finally:
        shader_registry.unregister("attention-output", "bert")


def test_files_are_replaced_only_where_that_is_asked_for_and_links_never_followed(tiny_model, tmp_path):
    folder, other = tmp_path / "site", tmp_path / "other"
    other.mkdir()
    with SentenceTransformer(tiny_model, device="cpu") as model:
        files = model.export("wgsl", folder)
        before = {path: path.read_bytes() for path in files}
        (folder / "plan.json").write_text("mine")
        with pytest.raises(errors.InvalidArgumentError, match=r"plan.json: is there already.*overwrite=True"):
            model.export("wgsl", folder)
        assert (folder / "plan.json").read_text() == "mine"
        (other / "plan.json").write_text("another's")
        (folder / "plan.json").unlink()
        (folder / "plan.json").symlink_to(other / "plan.json")
        model.export("wgsl", folder, overwrite=True)
        assert {path: path.read_bytes() for path in files} == before and not (folder / "plan.json").is_symlink()
        assert (other / "plan.json").read_text() == "another's"
        with pytest.raises(errors.InvalidTypeError, match="overwrite"):
            model.export("wgsl", folder, overwrite=1)
        new = tmp_path / "new"
        new.mkdir()
        (new / "shaders").symlink_to(other)
        with pytest.raises(errors.InvalidArgumentError, match="new/shaders: is a link"):
            model.export("wgsl", new, overwrite=True)
        (new / "shaders").unlink()
        (new / "weights.bin").symlink_to(other / "nothing")
        with pytest.raises(errors.InvalidArgumentError, match="weights.bin: is there already"):
            model.export("wgsl", new)
        assert [path.name for path in new.iterdir()] == ["weights.bin"] and len(list(other.iterdir())) == 1


def test_a_compiled_kernel_is_written_whole_and_not_through_links(tmp_path):
    compiled = grilly.kernels.get("bias_gelu").compile("spirv")
    (tmp_path / "gelu.spv").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(errors.InvalidArgumentError, match="gelu.spv: is there already"):
        compiled.write(tmp_path / "gelu.spv")
    assert not (tmp_path / "gelu.json").exists() and not (tmp_path / "elsewhere").exists()
    compiled.write(tmp_path / "gelu.spv", overwrite=True)
    assert (tmp_path / "gelu.spv").read_bytes() == compiled.code["bias-gelu"] and not (tmp_path / "elsewhere").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gelu.json", "gelu.spv"]


def test_save_pretrained_follows_no_links(tiny_model, tmp_path):
    folder, other = tmp_path / "saved", tmp_path / "other"
    other.mkdir(), folder.mkdir()
    (other / "config.json").write_text("mine")
    (folder / "config.json").symlink_to(other / "config.json")
    with SentenceTransformer(tiny_model, device="cpu") as model:
        model.save_pretrained(folder)
        assert (other / "config.json").read_text() == "mine" and not (folder / "config.json").is_symlink()
        shutil.rmtree(folder / "1_Pooling")
        (folder / "1_Pooling").symlink_to(other)
        with pytest.raises(errors.InvalidArgumentError, match="1_Pooling is a link"):
            model.save_pretrained(folder)
        assert (other / "config.json").read_text() == "mine" and not list(folder.glob(".saving-*"))
