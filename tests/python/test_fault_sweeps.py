"""No device memory at each place in turn, and the device lost at each submission in turn: nothing is lost but what the
error names, the numbers are right, and memory does not grow.

In `make test` every few places, all of them in make test-long.
"""

import logging
from collections.abc import Iterator

import numpy as np
import pytest
from conftest import LONG
from train.test_training import TEXT, trained

import grilly
from grilly import VulkanSentenceTransformer, fallbacks, functional, testing
from grilly.errors import DeviceError, DeviceMemoryError
from grilly.program import Graph
from grilly.train import Trainer

pytestmark = pytest.mark.vulkan

TEXTS = [f"the cat number {number} sat on the mat" for number in range(6)]
#: Calls that fail: all from one on, or one alone.
TIMES = pytest.mark.parametrize("times", [None, 1], ids=["from-there-on", "once"])


class Sweep:
    """The places of a fault, until there are no more."""

    def __init__(self, kind: str, times: int | None = None, stride: int = 1) -> None:
        self.kind, self.times, self.stride, self.places = kind, times, 1 if LONG else stride, 0

    def __iter__(self) -> Iterator[int]:
        place, self.struck = 0, 1
        while self.struck:
            testing.inject_fault(self.kind, place, self.times)
            try:
                yield place
            finally:
                self.end()
            self.places += 1
            # The first ones each: there the most different things are made.
            place += 1 if place < 4 else self.stride

    def end(self) -> None:
        """Ends the fault within a round."""
        self.struck = testing.clear_faults() or getattr(self, "_struck", 0)
        self._struck = 0

    def pause(self) -> bool:
        """Ends the fault; whether it happened."""
        self._struck = testing.clear_faults()
        return self._struck > 0


@pytest.fixture(autouse=True)
def quiet(vulkan):
    fallbacks.reset()
    yield
    testing.clear_faults()
    fallbacks.reset()


def told(caplog) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    caplog.clear()
    return found


def held() -> int:
    return grilly.stats()["bytes_held"]


@pytest.mark.parametrize("kind, times, stride", [
    ("allocation", None, 11), ("allocation", 1, 11), ("device_lost", None, 5),
])  # fmt: skip
def test_encode(tiny_model, vulkan, caplog, kind, times, stride):
    expected = []
    for device in (vulkan, "cpu"):
        with VulkanSentenceTransformer(tiny_model, device=device) as model:
            expected.append(model.encode(TEXTS, batch_size=2))
    before, sweep = held(), Sweep(kind, times, stride)
    for place in sweep:
        with VulkanSentenceTransformer(tiny_model, device=vulkan) as model:
            rows = [model.encode(TEXTS, batch_size=2)]
            struck = sweep.pause()
            rows.append(model.encode(TEXTS, batch_size=2))
            backend = model.backend
            del model
        # Each row is wholly the one device's or wholly the other's.
        for found in rows:
            for row, by_vulkan, by_cpu in zip(found, *expected, strict=True):
                assert row.tobytes() in (by_vulkan.tobytes(), by_cpu.tobytes()), place
        warnings = told(caplog)
        # One that happens once may find memory in a second try.
        assert len(warnings) == (backend == "cpu") and all("CPU took over" in text for text in warnings), warnings
        assert struck or backend == "vulkan"
        assert backend == "cpu" or times == 1 or not struck
        assert held() == before, place
    assert sweep.places > 4


def chain(x):
    """Some dispatches, with results of several sizes."""
    y = functional.gelu(x)
    y = functional.linear(y, np.full((33, 16), 0.01, np.float32), np.ones(33, np.float32))
    return functional.softmax(functional.layer_norm(y, 33))


@TIMES
def test_a_chain_of_functions_on_arrays_of_the_host(caplog, times):
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16)
    expected, sweep = chain(x), Sweep("allocation", times)
    grilly._core.engine("vulkan").synchronize()
    before = held()
    for place in sweep:
        fallbacks.reset()
        found = chain(x)
        assert np.allclose(found, expected, rtol=1e-5, atol=1e-7), place
        sweep.pause()
        warnings = told(caplog)
        assert len(warnings) <= 1 and all("runs on the CPU" in text for text in warnings), warnings
        assert chain(x).tobytes() == expected.tobytes(), place
        grilly._core.engine("vulkan").synchronize()
        assert held() <= before, place
    assert sweep.places > 6


@TIMES
def test_a_chain_of_functions_on_the_device(vulkan, caplog, times):
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16)
    given = grilly.to_vulkan(x)
    expected = chain(given).numpy()
    after, sweep = [], Sweep("allocation", times)
    for place in sweep:
        found = None
        try:
            found = chain(given)
            assert np.array_equal(found.numpy(), expected), place
            # Enough to be submitted before anything is read.
            for _ in range(40):
                found = functional.relu(found)
        except DeviceMemoryError:
            pass
        sweep.pause()
        # What was computed until then is still there.
        if found is not None:
            assert np.array_equal(found.numpy(), expected), place
        assert np.array_equal(chain(given).numpy(), expected), place
        assert not told(caplog)
        del found
        grilly._core.engine("vulkan").synchronize()
        after.append(held())
    assert sweep.places > 3 and max(after[-3:]) <= min(after[:3]), after


def test_a_chain_of_functions_on_a_device_that_is_lost(vulkan):
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16)
    expected = chain(grilly.to_vulkan(x)).numpy()
    sweep = Sweep("device_lost")
    for place in sweep:
        try:
            found = [chain(grilly.to_vulkan(x)).numpy() for _ in range(3)]
            assert all(np.array_equal(each, expected) for each in found)
        except DeviceError:
            pass
        sweep.pause()
        # A new one is opened.
        assert np.array_equal(chain(grilly.to_vulkan(x)).numpy(), expected), place
    assert sweep.places == 4


RUNS = 4


def summing(vulkan):
    """A program of more dispatches than are kept from its second run on; each run adds its input to a state."""
    graph = Graph()
    x, total = graph.input("x", (3,)), graph.state("total", np.zeros(3, np.float32))
    moments, rate = graph.state("moments", np.zeros(3, np.float32)), graph.input("rate", ())
    y = x
    for _ in range(70):
        y = graph.call("activation", y, kind="relu")
    graph.call("sgd", total, moments, y, rate, momentum=0.0)
    return graph.program([y], vulkan)


@TIMES
def test_a_program_runs_wholly_or_not_at_all(vulkan, times):
    program = summing(vulkan)
    for _ in range(RUNS):
        program.run(np.zeros(3), np.float32(-1))
    del program
    grilly._core.engine("vulkan").synchronize()
    # The commands of the last program stay until others come.
    most, sweep = held(), Sweep("allocation", times, 3)
    for place in sweep:
        testing.clear_faults()
        program, done, y = summing(vulkan), 0, None
        testing.inject_fault("allocation", place, times)
        rate, failures = np.float32(-1), 0
        for number in range(RUNS):
            x = np.float32([1, 10, 100]) * (number + 1)
            try:
                y = program.run(x, rate)[0]
            except DeviceMemoryError:
                failures += 1
                continue
            done += number + 1
            try:
                assert np.array_equal(y.numpy(), x), place
            except DeviceMemoryError:
                failures += 1
        struck = sweep.pause()
        assert failures == 0 or struck
        assert program.states()["total"].tolist() == [done, 10 * done, 100 * done], place
        x = np.float32([1, 2, 3])
        assert np.array_equal(program.run(x, rate)[0].numpy(), x)
        assert (program.states()["total"].numpy() == np.float32([1, 10, 100]) * done + x).all(), place
        del program, x, y
        grilly._core.engine("vulkan").synchronize()
        assert held() <= most, place
    assert sweep.places > 6


def test_a_program_on_a_device_that_is_lost(vulkan):
    sweep = Sweep("device_lost")
    for _ in sweep:
        testing.clear_faults()
        program, x = summing(vulkan), np.float32([1, 2, 3])
        testing.inject_fault("device_lost", sweep.places)
        try:
            for _ in range(RUNS):
                assert np.array_equal(program.run(x, np.float32(-1))[0].numpy(), x)
        except DeviceError:
            # It stays an error, and no number is made up.
            sweep.pause()
            with pytest.raises(DeviceError):
                program.states()["total"].numpy()
        sweep.pause() if not sweep._struck else None
        again = summing(vulkan)
        assert np.array_equal(again.run(x, np.float32(-1))[0].numpy(), x)
        assert again.states()["total"].tolist() == x.tolist()
    assert sweep.places > 3


@pytest.mark.parametrize("kind, times, stride", [
    ("allocation", None, 17), ("allocation", 1, 17), ("device_lost", None, 7),
])  # fmt: skip
def test_training(tmp_path, vulkan, caplog, kind, times, stride):
    straight = trained(tmp_path / "straight", vulkan, steps=4, checkpoint_steps=2)
    list(straight.run())
    expected, after, sweep = straight.hashes(), [], Sweep(kind, times, stride)
    del straight
    for place in sweep:
        folder, errors = tmp_path / f"run-{place}", 0
        trainer = None
        try:
            trainer = trained(folder, vulkan, steps=4, checkpoint_steps=2)
            list(trainer.run())
        except DeviceError:
            errors += 1
        struck = sweep.pause()
        assert errors == 0 or struck
        if errors and trainer is not None:
            # It goes on; without its device it says that it cannot.
            try:
                list(trainer.run())
                trainer.hashes()
            except (DeviceError, grilly.errors.UnusableError) as error:
                assert kind == "device_lost", error
                trainer = None
        if trainer is None:
            saved = list(folder.glob("step-*.json"))
            trainer = (
                Trainer.resume(TEXT, folder, device=vulkan)
                if saved
                else trained(folder, vulkan, steps=4, checkpoint_steps=2)
            )
            list(trainer.run())
        assert trainer.hashes() == expected, place
        assert not told(caplog)
        del trainer
        if kind != "device_lost":
            grilly._core.engine("vulkan").synchronize()
        after.append(held())
    assert sweep.places > 6 and max(after[-3:]) <= max(after[:3]), after
