"""Several devices that share the batches of a model or of a training step: two lavapipes, by a second manifest."""

import json
import os
from pathlib import Path

import pytest

from grilly import VulkanSentenceTransformer
from grilly.devices import share
from grilly.errors import InvalidArgumentError, InvalidTypeError

#: Prints what the code after it says of a model, its texts and the rows of one device.
BEGIN = """
import json, sys, numpy as np, grilly
from grilly import CrossEncoder, SentenceTransformer, VulkanSentenceTransformer
from grilly.errors import InvalidArgumentError
texts = [f"text {i} " + "word " * (i % 17) for i in range(60)]
BOTH = ["vulkan:0", "vulkan:1"]
def rows(model, **options):
    grilly.reset_stats()
    return model.encode(texts, batch_size=4, **options)
with VulkanSentenceTransformer(sys.argv[1], device="vulkan:0") as one:
    expected, name = rows(one), one.device_name
def same(found):
    assert (found.view(np.uint32) == expected.view(np.uint32)).all()
"""


@pytest.fixture
def two(run, vulkan, tmp_path, tiny_model):
    """Runs code in a process that has the driver twice."""
    manifests = os.environ.get("VK_DRIVER_FILES", os.environ.get("VK_ICD_FILENAMES", "")).split(os.pathsep)
    if len(manifests) != 1 or not manifests[0]:
        pytest.skip("not one driver alone")
    manifest = json.loads(Path(manifests[0]).read_text())
    other = tmp_path / "other_icd.json"
    other.write_text(json.dumps(manifest))
    both = os.pathsep.join([manifests[0], str(other)])

    def process(code: str, **variables: str) -> str:
        environment = {"VK_DRIVER_FILES": both, "VK_ICD_FILENAMES": both} | variables
        done = run(BEGIN + code, tiny_model, **environment)
        assert done.status == 0, done.errors
        return done.output

    return process


@pytest.mark.vulkan
def test_rows_are_those_of_one(two):
    output = two("""
for given in ({"devices": BOTH}, {"devices": "all"}, {"device": BOTH}):
    with VulkanSentenceTransformer(sys.argv[1], **given) as model:
        assert model.backend == "vulkan" and model.device_name == f"{name}, {name}"
        assert model.requested_device == ("all" if given == {"devices": "all"} else "vulkan:0,vulkan:1")
        same(rows(model))
        found = grilly.stats()
        assert found["batches_vulkan"] == 15 and found["fallbacks"] == found["batches_cpu"] == 0, found
        assert found["devices"] == 0
        same(rows(model.to("vulkan:1")))
with SentenceTransformer(sys.argv[1], device="vulkan:0", dtype="float32") as model:
    same(rows(model, device=BOTH, normalize_embeddings=True))
    assert list(model._held.elsewhere) == ["vulkan:0,vulkan:1"]
    pool = model.start_multi_process_pool(BOTH)
    same(rows(model, pool=pool, normalize_embeddings=True))
    same(rows(model, device=["vulkan:0", "vulkan:5"], normalize_embeddings=True))
    same(rows(model, device=["cpu", "cpu"], normalize_embeddings=True))
print("done")
""")
    assert output.split() == ["done"]


@pytest.mark.vulkan
@pytest.mark.parametrize("after", [0, 3, 8])
@pytest.mark.parametrize("fault", ["device_lost", "allocation"])
def test_a_device_that_fails_hands_its_batches_on(two, fault, after):
    output = two(
        f"""
with VulkanSentenceTransformer(sys.argv[1], devices=BOTH) as model:
    grilly.testing.inject_fault({fault!r}, after={after}, times=1)
    same(rows(model))
    assert grilly.testing.clear_faults() > 0
    found = grilly.stats()
    assert model.backend == "vulkan" and found["fallbacks"] == found["batches_cpu"] == 0, found
    same(rows(model))
    grilly.testing.inject_fault({fault!r}, after=2, times=1)
    found = rows(model)
    assert grilly.testing.clear_faults() > 0
    assert model.backend == "cpu" and grilly.stats()["fallbacks"] == 1
    assert np.abs(found - expected).max() < 1e-5
print("done")
"""
    )
    assert output.split() == ["done"]


@pytest.mark.vulkan
def test_numbers_that_are_the_same_everywhere(two):
    two("""
given = {"numerics": "everywhere"}
with VulkanSentenceTransformer(sys.argv[1], device="cpu", **given) as model:
    expected = rows(model)
with VulkanSentenceTransformer(sys.argv[1], devices=BOTH, **given) as model:
    same(rows(model))
""")


@pytest.mark.vulkan
def test_devices_that_cannot_share(two):
    two("""
for devices, problem in (
    (["vulkan:0", "vulkan:0"], "twice"),
    (["vulkan:0", "cpu"], "vulkan:N"),
    (["vulkan", "vulkan:1"], "vulkan:N"),
):
    try:
        VulkanSentenceTransformer(sys.argv[1], devices=devices)
    except InvalidArgumentError as error:
        assert problem in str(error), error
    else:
        raise AssertionError(devices)
try:
    VulkanSentenceTransformer(sys.argv[1], devices=["vulkan:0", "vulkan:2"])
except IndexError as error:
    assert "vulkan:2" in str(error)
else:
    raise AssertionError
""")


#: Trains in a few steps, on devices that are given.
TRAINS = """
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from grilly.train import Trainer, TransformerConfig
config = TransformerConfig(256, d_model=16, num_layers=2, num_heads=2, ffn_dim=32, max_seq_len=8, dropout=0.1)
tokens = np.random.default_rng(0).integers(0, 256, (5, 8, 9))
def trained(**given):
    options = {"batch_size": 8 // given.get("accumulate", 2), "learning_rate": 0.01, "max_norm": 1.0} | given
    trainer = Trainer(config, **options)
    return trainer, [trainer.step(windows) for windows in tokens[:3]]
def agree(ours, theirs):
    (trainer, steps), (other, expected) = ours, theirs
    assert steps == expected and trainer.hashes() == other.hashes(), (steps, expected)
"""


@pytest.mark.vulkan
def test_a_step_on_two_has_the_bits_of_one_with_their_shards(two):
    output = two(
        TRAINS
        + """
one, both = {"device": "vulkan:1"}, {"devices": BOTH}
for options in ({}, {"dtype": "float16"}, {"optimizer": "sgd", "gradient_checkpointing": True}):
    shared = trained(**both, **options)
    assert shared[0].options["shards"] == shared[0].options["accumulate"] == 2
    agree(shared, trained(**one, accumulate=2, **options))
sharded = {"accumulate": 4, "shards": 2}
agree(trained(**both, accumulate=4), trained(**one, **sharded))
assert trained(**one, **sharded)[0].hashes() != trained(**one, accumulate=4)[0].hashes()
agree(trained(**both, accumulate=4, shards=4), trained(**one, accumulate=4))

# A run goes on, on any number of devices.
text, folder = "The quick brown fox jumps over the lazy dog. " * 20, Path(mkdtemp())
options = {"batch_size": 2, "checkpoint_steps": 2, "steps": 4}
whole = Trainer(config, text, folder / "whole", devices="all", **options)
expected = [(step.loss, step.norm) for step in whole.run()]
begun = Trainer(config, text, folder / "parts", devices=BOTH, **(options | {"steps": 2}))
steps = [(step.loss, step.norm) for step in begun.run()]
for number, devices in ((3, ["vulkan:1"]), (4, BOTH)):
    again = Trainer.resume(text, folder / "parts", steps=number, devices=devices)
    steps += [(step.loss, step.norm) for step in again.run()]
assert steps == expected and again.hashes() == whole.hashes()
loaded = Trainer.load(folder / "parts", devices=BOTH)
assert loaded.hashes() == whole.hashes() == Trainer.load(folder / "parts", device="vulkan:1").hashes()
print("done")
"""
    )
    assert output.split() == ["done"]


@pytest.mark.vulkan
def test_a_step_on_two_that_fails(two):
    output = two(
        TRAINS
        + """
expected = trained(devices=BOTH)
for after in range(40):
    trainer = Trainer(config, devices=BOTH, batch_size=4, learning_rate=0.01, max_norm=1.0)
    steps = [trainer.step(tokens[0])]
    grilly.testing.inject_fault("allocation", after=after, times=1)
    try:
        steps.append(trainer.step(tokens[1]))
    except MemoryError:
        # Nothing is lost: the same call again.
        grilly.testing.clear_faults()
        steps.append(trainer.step(tokens[1]))
    except grilly.errors.UnusableError as error:
        # Some devices were updated and others not.
        grilly.testing.clear_faults()
        assert "was not updated as others were" in str(error)
        try:
            trainer.step(tokens[1])
        except grilly.errors.UnusableError as again:
            assert "resume from the last checkpoint" in str(again)
            continue
        raise AssertionError from error
    grilly.testing.clear_faults()
    steps.append(trainer.step(tokens[2]))
    agree((trainer, steps), expected)
trainer = Trainer(config, devices=BOTH, batch_size=4)
grilly.testing.inject_fault("device_lost", after=2, times=1)
for expected in ("lost", "resume from the last checkpoint"):
    try:
        trainer.step(tokens[0])
    except grilly.errors.GrillyError as error:
        assert expected in str(error), error
    else:
        raise AssertionError
print("done")
"""
    )
    assert output.split() == ["done"]


@pytest.mark.vulkan
def test_steps_that_devices_cannot_share(two):
    two(
        TRAINS
        + """
for options, problem in (
    ({"accumulate": 3}, "shards is 2, expected a divisor of accumulate, 3"),
    ({"accumulate": 1}, "shards is 2, expected a divisor of accumulate, 1"),
    ({"shards": 1}, "shards is 1, expected a multiple of the devices, 2"),
    ({"device": "vulkan:1"}, "both device and devices"),
    ({"devices": ["vulkan:0", "cpu"]}, "vulkan:N"),
    ({"devices": []}, "devices is empty"),
):
    try:
        Trainer(config, **({"devices": BOTH} | options))
    except InvalidArgumentError as error:
        assert problem in str(error), error
    else:
        raise AssertionError(options)
"""
    )


def test_arguments(tiny_model):
    for devices, kind in (
        ("vulkan:0", InvalidTypeError),
        (3, InvalidTypeError),
        ([], InvalidArgumentError),
        (["x"], InvalidArgumentError),
    ):
        with pytest.raises(kind, match="device"):
            VulkanSentenceTransformer(tiny_model, devices=devices)
    with pytest.raises(InvalidArgumentError, match="both device and devices"):
        VulkanSentenceTransformer(tiny_model, "cpu", devices=["cpu"])
    with VulkanSentenceTransformer(tiny_model, devices=["cpu"]) as model:
        assert model.backend == "cpu"


def test_which_devices_share():
    assert not share(["cpu", "cpu"]) and not share(["vulkan:0"]) and not share(["vulkan:0", "vulkan:0"])
    assert not share(["vulkan:0", "vulkan:1000"], mixed=True)
