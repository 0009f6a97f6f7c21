"""What `numerics="everywhere"` promises and refuses: versions, operations, training, models, the page of all."""

import pickle
import subprocess
import sys
from pathlib import Path

import everywhere_page
import numpy as np
import pytest

import grilly
from grilly import SentenceTransformer, VulkanSentenceTransformer, _core, functional, nn, optim
from grilly.commands.fingerprint import fingerprint
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from grilly.program import Graph
from grilly.train import Trainer, TransformerConfig

TINY_BERT = Path(__file__).parents[1] / "fixtures" / "tiny-bert"
ROWS = dict(_core.everywhere_rows())
OF_TRAINING = "gradients, losses, optimisers, dropout and training: the mode covers inference"
REFUSED = rf'numerics="everywhere": {OF_TRAINING}'
#: What a build without them answers to other versions.
VERSIONS = 'this build of grilly has version 1 of "everywhere" alone'


def array(*shape):
    return grilly.to_vulkan(np.ones(shape, np.float32), "cpu")


def test_every_operation_has_a_row_and_the_page_is_current():
    assert list(ROWS) == _core.op_names()
    assert set(ROWS.values()) > {"promised", "steps", OF_TRAINING}
    assert everywhere_page.PAGE.read_text(encoding="utf-8") == everywhere_page.page(), everywhere_page.REMEDY
    for name, told in ROWS.items():
        if "backward" in name or name in (
            "adam",
            "sgd",
            "loss",
            "cross_entropy",
            "dropout",
            "clip_norm",
            "hebbian_update",
        ):
            assert told == OF_TRAINING, name
    inference = "linear attention embedding_sum layer_norm rms_norm activation gated binary softmax pool normalize rope"
    inference += " route expert_linear weighted_sum token_convolution"
    assert {ROWS[name] for name in inference.split()} == {"promised"}


@pytest.mark.parametrize("name, error, told", [
    ("everywhere-2", UnsupportedError, f'numerics="everywhere-2": {VERSIONS}'),
    ("everywhere-0", UnsupportedError, f'numerics="everywhere-0": {VERSIONS}'),
    ("Everywhere", InvalidArgumentError, 'numerics is "Everywhere", expected "run", "everywhere" or "everywhere-1"'),
    ("everywhere-", InvalidArgumentError, 'numerics is "everywhere-", expected "run", "everywhere" or "everywhere-1"'),
])  # fmt: skip
def test_other_names_and_versions(numerics, name, error, told):
    with pytest.raises(error) as refused:
        numerics(name)
    assert str(refused.value) == told
    assert grilly.info()["numerics"] == "run"
    with pytest.raises(error) as refused:
        VulkanSentenceTransformer(TINY_BERT, device="cpu", numerics=name)
    assert str(refused.value) == told


def test_the_choice_is_told_and_models_keep_theirs(numerics):
    assert grilly.info()["numerics"] == "run"
    with VulkanSentenceTransformer(TINY_BERT, device="cpu") as model:
        assert model.numerics == "run" and model.plan.endswith("\nnumerics: run\n")
        before = model.encode("A cat.")
        numerics("everywhere")
        assert grilly.info()["numerics"] == "everywhere-1"
        assert "numerics: everywhere-1" in grilly.devices.format_info(grilly.info())
        assert model.numerics == "run" and (model.encode("A cat.") == before).all()
        copy = pickle.loads(pickle.dumps(model))
        assert copy.numerics == "run" and (copy.encode("A cat.") == before).all()
    with VulkanSentenceTransformer(TINY_BERT, device="cpu") as model:
        assert model.numerics == "everywhere-1"
        numerics("run")
        assert pickle.loads(pickle.dumps(model)).numerics == "everywhere-1"
    for name in ("everywhere", "everywhere-1"):
        with SentenceTransformer(str(TINY_BERT), device="cpu", dtype="float32", numerics=name) as model:
            assert model.numerics == "everywhere-1" and model.plan.endswith("\nnumerics: everywhere-1\n")
            fused = {line.split(":")[0].strip() for line in model.plan.splitlines() if ": fused into" in line}
            assert fused == {"linear_epilogue"}
    with pytest.raises(InvalidTypeError, match="numerics"):
        VulkanSentenceTransformer(TINY_BERT, numerics=1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_model_is_in_float32_or_in_integers(dtype):
    with pytest.raises(
        UnsupportedError, match=rf'^dtype="{dtype}": numerics="everywhere": .* load it with dtype="float32"'
    ):
        VulkanSentenceTransformer(TINY_BERT, device="cpu", dtype=dtype, numerics="everywhere")


def test_a_model_of_the_mode_is_not_exported(tmp_path):
    with (
        VulkanSentenceTransformer(TINY_BERT, device="cpu", numerics="everywhere") as model,
        pytest.raises(
            UnsupportedError, match=r'the plan: numerics="everywhere": compilers of other languages may contract'
        ),
    ):
        model.export("wgsl", tmp_path / "page")


TRAINING = {
    "gelu_backward": lambda x: functional.gelu_backward(x, x),
    "softmax_backward": lambda x: functional.softmax_backward(x, x),
    "gemm_backward": lambda x: functional.gemm_backward(x, x, 0),
    "adam_update": lambda x: functional.adam_update(x, x, x, x, 0.1),
    "dropout": lambda x: functional.dropout(x),
    "loss": lambda x: functional.mse_loss(x, x),
    "cross_entropy": lambda x: functional.cross_entropy(x, np.zeros(2, np.int32)),
    "linear_backward": lambda x: functional.linear_backward(x, x, x),
    "the gradient of rope": lambda x: _core.engine("cpu").vjp(
        "rope", [x._array, x._array, x._array], x._array, {}
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", TRAINING)
def test_what_belongs_to_training_is_refused_by_name(numerics, what):
    x = array(2, 2)
    numerics("everywhere")
    with pytest.raises(UnsupportedError, match=rf"^{what}: {REFUSED}"):
        TRAINING[what](x)


def test_training_of_programs_layers_and_models_is_refused(numerics):
    layer = nn.Linear(2, 2)
    trained = optim.SGD(layer.parameters(), lr=0.1)
    for parameter in layer.parameters():
        parameter.grad = np.ones(parameter.shape, np.float32)
    config = TransformerConfig(256, d_model=16, num_layers=1, num_heads=2, ffn_dim=32, max_seq_len=8)
    graph = Graph()
    x, g = graph.input("x", [2]), graph.input("g", [2])
    y = graph.call("binary", x, x, kind="add")
    numerics("everywhere")
    with pytest.raises(UnsupportedError, match=rf"^SGD: {REFUSED}"):
        trained.step()
    with pytest.raises(UnsupportedError, match=rf"^a trainer: {REFUSED}"):
        Trainer(config, device="cpu", batch_size=2)
    with pytest.raises(UnsupportedError, match=rf"^gradients: {REFUSED}"):
        graph.gradients(y, g, [x])
    softened = graph.call("softmax_backward", g, y)
    with pytest.raises(UnsupportedError, match=rf"^softmax_backward: {REFUSED}"):
        graph.program([softened], device="cpu")


def test_of_inference_only_parts_of_attention_are_refused():
    refused = {name: told for name, told in _core.everywhere_rows() if told not in everywhere_page.TOLD}
    others = {name for name, told in refused.items() if "inference" not in told}
    assert others == {"attention_bias", "attention_mask", "attention_output", "attention_scores"}


def test_arrays_of_16_bits_are_refused_by_name(numerics):
    half = grilly.to_vulkan(np.ones((2, 4), np.float16), "cpu")
    numerics("everywhere")
    with pytest.raises(UnsupportedError, match=r'^float16: numerics="everywhere": '):
        functional.softmax(half)


def test_a_call_names_its_own_numbers():
    engine = _core.engine("cpu")
    x = engine.upload(np.ones((1, 4), np.float32))
    assert engine.call("dropout", [x], {"p": 0.0, "seed": 1}, None, "run").shape == (1, 4)
    with pytest.raises(UnsupportedError, match=rf"^dropout: {REFUSED}"):
        engine.call("dropout", [x], {"p": 0.0, "seed": 1}, None, "everywhere")
    with pytest.raises(UnsupportedError, match="everywhere-3"):
        engine.call("dropout", [x], {"p": 0.0, "seed": 1}, None, "everywhere-3")


def test_the_fingerprint_is_one_line():
    command = [sys.executable, "-m", "grilly", "fingerprint", str(TINY_BERT), "--device", "cpu", "--numerics", "run"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with VulkanSentenceTransformer(TINY_BERT, device="cpu") as model:
        assert done.stdout == f"{fingerprint(model)} run\n"
        assert len(fingerprint(model)) == 64
    done = subprocess.run([*command[:-1], "everywhere-9"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "") and VERSIONS in done.stderr
