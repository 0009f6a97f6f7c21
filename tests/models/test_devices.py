"""A small random BERT on software drivers: counters, bits and numbers at every vector width and on SwiftShader."""

import functools
from pathlib import Path

import lavapipe
import numpy as np
import pytest
from conftest import LONG, need, need_vulkan, unexpected

from . import reference
from .device_process import Outcome, run
from .golden import normalized, per_text
from .variant_list import sized

LAYERS, HIDDEN = 2, 96
LAVAPIPE_WIDTHS = {"native": {}} | {f"width {width}": lavapipe.environment(width) for width in lavapipe.SUBGROUPS}
SWIFTSHADER = Path("/usr/lib/chromium")
WORDS = "the a in of and to is it dog time year people way day thing man world life hand part child eye".split()


def swiftshader_environment() -> dict[str, str]:
    icd = SWIFTSHADER / "vk_swiftshader_icd.json"
    present = icd.exists() and (SWIFTSHADER / "libvk_swiftshader.so").exists()
    need("swiftshader", present, f"{SWIFTSHADER}/libvk_swiftshader.so is missing (Debian: chromium-common)")
    return {"VK_DRIVER_FILES": str(icd), "VK_ICD_FILENAMES": str(icd)}


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("small") / "bert"
    checkpoint = sized(
        51,
        hidden_size=HIDDEN,
        num_attention_heads=3,
        intermediate_size=200,
        num_hidden_layers=LAYERS,
        max_position_embeddings=160,
    )
    checkpoint.transformer = {"max_seq_length": 160}
    checkpoint.write(folder)
    return folder


@pytest.fixture(scope="module")
def many() -> list[str]:
    """100 texts, or 1,000: mostly short, a few of every length up to beyond the limit, one empty."""
    random = np.random.RandomState(9)
    lengths = [0, 1, 30, 31, 32, 62, 63, 64, 125, 126, 127, 128, 157, 158, 159, 200]
    lengths += [1 + random.randint(14) for _ in range((1000 if LONG else 100) - len(lengths))]
    random.shuffle(lengths)
    return [" ".join(WORDS[random.randint(len(WORDS))] for _ in range(length)) for length in lengths]


@pytest.fixture(scope="module")
def expected(small):
    """`expected(ids)`: the float64 reference's row, computed once for all devices."""
    model = reference.Model(small)
    return functools.cache(lambda ids: normalized(model.embed(ids)))


def outcome_of(driver: str, small: Path, many: list[str], scratch: Path) -> Outcome:
    if driver == "swiftshader":  # some 100 times slower than lavapipe
        few = [text for text in many if len(text.split()) < 15][:20]
        return run(small, few, scratch, swiftshader_environment(), bits=True)
    need_vulkan()
    # All of them at the native width; some at the others, with the empty one and long ones.
    count, step = (100, 1) if LONG else (6, 4)
    long = [text for text in many[count:] if len(text.split()) >= 15]
    fewer = [*many[:count], "", *long[::step]]
    return run(small, many if driver == "native" else fewer, scratch, LAVAPIPE_WIDTHS[driver], bits=True)


def runs_on_vulkan_without_fallback(outcome):
    assert outcome.record["backend"] == "vulkan"
    total = outcome.record["total"]
    assert total["fallbacks"] == 0 and total["batches_cpu"] == 0 and total["batches_vulkan"] > 0


def validation_layer_is_in_and_silent(outcome):
    installed = any(Path("/usr/share/vulkan/explicit_layer.d").glob("VkLayer_khronos_validation*.json"))
    need("validation", installed, "the layer is not installed (Debian: vulkan-validationlayers)")
    assert outcome.record["validation_layer"]
    assert not unexpected(outcome.record["messages"])


def numbers(outcome, expected):
    """Every 25th text and the eight longest; all, if there are few."""
    count = len(outcome.ids)
    longest = sorted(range(count), key=lambda index: -len(outcome.ids[index]))[:8]
    chosen = sorted({*range(0, count, 25 if count >= 100 else 1), *longest})
    difference = {
        index: float(np.abs(outcome.embeddings[index] - expected(tuple(outcome.ids[index]))).max()) for index in chosen
    }
    assert max(difference.values()) <= 1e-6, difference


def bits(outcome):
    assert outcome.record["bits"] == {"again": True, "shuffled": True, "alone": True}


def one_instance_and_one_device(outcome):
    assert outcome.record["total"]["instances"] == 1
    assert outcome.record["total"]["devices"] == 1


def weights_go_up_once(outcome, small):
    assert outcome.record["before"]["bytes_weights"] == outcome.record["total"]["bytes_weights"]
    parameters = sum(array.size * 4 for array in reference.Bert(small).tensors.values())
    assert 0.9 * parameters <= outcome.record["total"]["bytes_weights"] <= 1.2 * parameters + 65536


def one_submit_and_one_wait_a_batch(outcome):
    batches = outcome.spent("batches_vulkan")
    assert batches > 0
    assert outcome.spent("submits") == batches
    assert outcome.spent("waits") == batches


def dispatches(outcome):
    """At most nine a layer, and a handful for embeddings, pooling and the unit length."""
    assert outcome.spent("dispatches") <= outcome.spent("batches_vulkan") * (9 * LAYERS + 8)


def bytes_up_and_down(outcome):
    """Up go ids, lengths and positions; down come the texts' rows."""
    tokens, texts = sum(map(len, outcome.ids)), len(outcome.ids)
    batches = outcome.spent("batches_vulkan")
    assert 4 * tokens <= outcome.spent("bytes_up") <= 12 * tokens + 16 * texts + 1024 * batches
    assert texts * HIDDEN * 4 <= outcome.spent("bytes_down") <= texts * HIDDEN * 4 + 1024 * batches


DRIVERS = [
    *(pytest.param(name, marks=pytest.mark.vulkan) for name in LAVAPIPE_WIDTHS),
    pytest.param("swiftshader", marks=pytest.mark.swiftshader),
]


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_process(driver, small, many, expected, tmp_path, subtests):
    """One test for each driver, so that two test processes do not each run its process."""
    outcome = outcome_of(driver, small, many, tmp_path)
    for check in (
        runs_on_vulkan_without_fallback,
        validation_layer_is_in_and_silent,
        bits,
        one_instance_and_one_device,
        one_submit_and_one_wait_a_batch,
        dispatches,
        bytes_up_and_down,
    ):
        with subtests.test(check.__name__):
            check(outcome)
    with subtests.test("numbers"):
        numbers(outcome, expected)
    with subtests.test("weights_go_up_once"):
        weights_go_up_once(outcome, small)


@pytest.mark.swiftshader
def test_real_weights_on_swiftshader(real_model_path, texts, minilm_golden, tmp_path):
    """Texts of at most nine tokens; bits are compared on the small model."""
    lengths = [len(ids) for ids in per_text(minilm_golden["ids"])]
    twenty = [index for index, length in enumerate(lengths) if length <= 9][::2][:20]
    assert len(twenty) == 20
    chosen = twenty if LONG else twenty[::4]
    outcome = run(real_model_path, [texts[index] for index in chosen], tmp_path, swiftshader_environment(), bits=False)
    assert outcome.record["backend"] == "vulkan" and outcome.record["total"]["fallbacks"] == 0
    assert np.abs(outcome.embeddings - minilm_golden["embeddings"][chosen]).max() <= 1e-6
    assert not unexpected(outcome.record["messages"])
