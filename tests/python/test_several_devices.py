"""Several devices that share the batches of a model: two lavapipes, by a second manifest of the driver."""

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
